package writefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
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
