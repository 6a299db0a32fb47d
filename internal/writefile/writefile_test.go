package writefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What stands at a path, or a link points to, is replaced or refused and never written to.
func TestLinksAreNotFollowed(t *testing.T) {
	for name, write := range map[string]func(string) error{
		"whole": func(path string) error { return Write(path, []byte("new")) },
		"new": func(path string) error {
			f, err := New(path)
			if err == nil {
				err = f.Close()
			}
			return err
		},
	} {
		dir := t.TempDir()
		victim, none := filepath.Join(dir, "victim"), filepath.Join(dir, "none")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		for i, target := range []string{victim, none} {
			path := filepath.Join(dir, "link"+string(rune('0'+i)))
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			if err := write(path); (name == "whole") != (err == nil) || err != nil && !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s: %v", name, err)
			}
			if text, err := os.ReadFile(path); name == "whole" && string(text) != "new" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		if text, err := os.ReadFile(victim); string(text) != "precious" {
			t.Errorf("%s: the link's target is %q, %v", name, text, err)
		}
		if _, err := os.Lstat(none); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the link's target was made: %v", name, err)
		}
	}
}

// A file that could not be written leaves what was there, and nothing beside it.
func TestCommitOfAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(fs.ErrInvalid); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// What was named as a folder may be a pipe, which somebody else made, and to which nobody ever writes.
func TestAPipeIsNoFolder(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "run")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		_, err := OpenDir(pipe)
		opened <- err
	}()
	select {
	case err := <-opened:
		if err == nil {
			t.Error("a pipe is taken for a folder")
		}
	case <-time.After(5 * time.Second):
		t.Error("a pipe is waited for")
	}
}

// A folder in a folder is opened or made, and is never where a link leads.
func TestFolderInAFolder(t *testing.T) {
	path, elsewhere := t.TempDir(), t.TempDir()
	to, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for range 2 { // made, and opened
		in, err := to.Folder("in")
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Write("a", []byte("a")); err != nil {
			t.Error(err)
		}
		if err := in.Same(); err != nil {
			t.Error(err)
		}
		_ = in.Close()
	}
	if text, err := os.ReadFile(filepath.Join(path, "in", "a")); string(text) != "a" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Mkdir(filepath.Join(path, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out": elsewhere, "beside": "other", "nowhere": "none"} {
		if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Folder(name); err == nil {
			t.Errorf("a link to %s is taken for a folder", target)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Folder("file"); err == nil {
		t.Error("a file is taken for a folder")
	}
}
