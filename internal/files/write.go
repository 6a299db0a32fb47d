// Package files writes files whole or not at all, and reads those of a run's folder up to a size.
package files

import (
	"errors"
	"os"
	"path/filepath"
)

// File is a file that is being written beside its path.
type File struct {
	*os.File
	path string
}

// Create begins a file. Nothing changes at path before Commit.
func Create(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	return &File{f, path}, err
}

// Commit closes the file and moves it to its path. After an error, of the caller's writing or its own, it leaves nothing behind.
func (f *File) Commit(err error) error {
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		return os.Rename(f.Name(), f.path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Write replaces the file at path.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err == nil {
		_, err = f.Write(data)
		err = f.Commit(err)
	}
	return err
}
