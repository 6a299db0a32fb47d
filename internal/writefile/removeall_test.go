package writefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// What a container wrote is removed, however deep it is and whatever its modes: the process has fewer descriptors than there are levels.
func TestRemoveAllOfWhatAHostileHandWrote(t *testing.T) {
	const deep, most = 600, 200
	above := t.TempDir()
	outside := filepath.Join(above, "outside")
	top := filepath.Join(above, "redis-1")
	for _, dir := range []string{outside, filepath.Join(top, "wide"), filepath.Join(top, "shut")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(outside, "kept")
	write := func(path string) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(kept)
	for i := range 1000 {
		write(filepath.Join(top, "wide", strconv.Itoa(i)))
	}
	for link, to := range map[string]string{"out": outside, "wide/up": "../..", "wide/file": kept, "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	dig(t, top, deep)
	write(filepath.Join(top, "shut", "file"))
	for _, dir := range []string{"shut", "."} {
		if err := os.Chmod(filepath.Join(top, dir), 0); err != nil {
			t.Fatal(err)
		}
	}
	few(t, most)
	if err := RemoveAll(top); err != nil {
		t.Errorf("%.200v", err)
	}
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what a link names is gone: %v", err)
	}
}

// dig makes folders in folders.
func dig(t *testing.T, in string, deep int) {
	t.Helper()
	dir, err := os.OpenRoot(in)
	for range deep {
		if err == nil {
			err = dir.Mkdir("d", 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		below, berr := dir.OpenRoot("d")
		_ = dir.Close()
		dir, err = below, berr
	}
	_ = dir.Close()
}

// few has the process open no more than so many files until the test ends.
func few(t *testing.T, most uint64) {
	t.Helper()
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: limit.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
}

func TestRemoveAllOfLittle(t *testing.T) {
	above := t.TempDir()
	for name, create := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link": func(path string) error { return os.Symlink(above, path) },
	} {
		path := filepath.Join(above, name)
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		if err := RemoveAll(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", name, err)
		}
	}
	if err := RemoveAll(filepath.Join(above, "none")); err != nil {
		t.Errorf("what is not there: %v", err)
	}
	if entries, err := os.ReadDir(above); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
