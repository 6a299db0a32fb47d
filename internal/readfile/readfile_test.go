package readfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyRegularFilesOfTheirSize(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("12345"), 0o600), os.Symlink(at("file"), at("link")),
		os.Symlink("/dev/zero", at("zero")), syscall.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		most int64
		want error
	}{
		"file": {most: 5}, "link": {most: 5}, "./file": {most: 4, want: ErrTooLarge}, "zero": {most: 5, want: ErrNotRegular},
		"fifo": {most: 5, want: ErrNotRegular}, ".": {most: 5, want: ErrNotRegular}, "none": {most: 5, want: os.ErrNotExist},
	} {
		text, err := Read(at(name), c.most)
		if !errors.Is(err, c.want) || c.want == nil && string(text) != "12345" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// Who makes a folder has none read that he could not read himself: a link in it leads out of it nowhere.
func TestFoldersLeadNowhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "private")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(elsewhere, []byte("private"), 0o600), os.WriteFile(at("file"), []byte("12345"), 0o600),
		os.Symlink("file", at("link")), os.Symlink(elsewhere, at("out")), syscall.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, most := range map[string]int64{"file": 5, "link": 5} {
		if text, err := ReadIn(root, name, most); err != nil || string(text) != "12345" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for name, most := range map[string]int64{"file": 4, "out": 50, "fifo": 50, "none": 50} {
		if text, err := ReadIn(root, name, most); err == nil || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
