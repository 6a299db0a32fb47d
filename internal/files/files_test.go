package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"old", "new"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(fs.ErrInvalid); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("the caller's error became %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "new" {
		t.Errorf("after an error: %q, %v", got, err)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); len(all) != 1 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}

func TestOnlyRegularFilesOfTheirSizeAreRead(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "private")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(elsewhere, []byte("private"), 0o600), os.WriteFile(at("file"), []byte("12345"), 0o600),
		os.Symlink("file", at("link")), os.Symlink(elsewhere, at("out")), syscall.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]int64{"file": 5, "link": 5} {
		if text, err := Read(dir, name, limit); err != nil || string(text) != "12345" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for name, want := range map[string]error{"file": ErrTooLarge, "fifo": ErrNotRegular, ".": ErrNotRegular, "none": fs.ErrNotExist} {
		if text, err := Read(dir, name, 4); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v; want %v", name, text, err, want)
		}
	}
	if text, err := Read(dir, "out", 50); err == nil {
		t.Errorf("a link out of the folder was read: %q", text)
	}
}
