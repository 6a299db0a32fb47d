// Package writefile writes files into folders that somebody else may have made: never through a link that stands there, and never
// into a file that stands there.
package writefile

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// New makes a file at path, to be read while it is written, and refuses one that is there (fs.ErrExist), be it a link to nowhere.
func New(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// File is written under a name that nobody can know before, beside its path.
type File struct {
	*os.File
	path string
}

// Create begins a file. Nothing changes at path before Commit.
func Create(path string) (*File, error) {
	dir, name := filepath.Split(path)
	f, err := New(filepath.Join(dir, "."+name+"-"+rand.Text()))
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// Commit closes the file and puts it at its path, in the place of what is there. With the error that writing met, and on one of its
// own, nothing is left behind and nothing changes at the path.
func (f *File) Commit(err error) error {
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Write puts data at path, in the place of what is there.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return f.Commit(err)
}
