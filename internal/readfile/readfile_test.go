package readfile

import (
	"errors"
	"os"
	"path/filepath"
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
