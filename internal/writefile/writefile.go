// Package writefile writes files into folders that somebody else may have made, or may rename: never through a link that stands there,
// never into a file that stands there, and never into another folder that was put in the place of one that NewDir holds.
package writefile

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// place is where a file is: below root, or where root is nil anywhere.
type place struct {
	root *os.Root
	path string
}

// at is the place of a path: in the innermost folder above it that NewDir holds, if there is one.
func at(path string) place {
	path = filepath.Clean(path)
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if d, ok := made.Load(folder); ok {
			rest, err := filepath.Rel(folder, path)
			if err == nil {
				return place{d.(*Dir).root, rest}
			}
		}
		if folder == filepath.Dir(folder) {
			return place{nil, path}
		}
	}
}

func (p place) open(flags int) (*os.File, error) {
	if p.root != nil {
		return p.root.OpenFile(p.path, flags, 0o644)
	}
	return os.OpenFile(p.path, flags, 0o644)
}

func (p place) remove() error {
	if p.root != nil {
		return p.root.Remove(p.path)
	}
	return os.Remove(p.path)
}

// rename moves a file to another place below the same root.
func (p place) rename(to place) error {
	if p.root != nil {
		return p.root.Rename(p.path, to.path)
	}
	return os.Rename(p.path, to.path)
}

// New makes a file at path, to be read while it is written, and refuses one that is there (fs.ErrExist), be it a link to nowhere.
func New(path string) (*os.File, error) { return at(path).open(os.O_WRONLY | os.O_CREATE | os.O_EXCL) }

// Append opens the file at path, or makes it, to be read, and written to at its end. It is for files in folders that NewDir holds, where
// links lead nowhere else.
func Append(path string) (*os.File, error) {
	return at(path).open(os.O_RDWR | os.O_CREATE | os.O_APPEND)
}

// Remove removes the file at path.
func Remove(path string) error { return at(path).remove() }

// File is written under a name that nobody can know before, beside its path.
type File struct {
	*os.File
	own, to place
}

// Create begins a file. Nothing changes at path before Commit.
func Create(path string) (*File, error) { return create(at(path)) }

func create(to place) (*File, error) {
	dir, name := filepath.Split(to.path)
	own := place{to.root, filepath.Join(dir, "."+name+"-"+rand.Text())}
	f, err := own.open(os.O_WRONLY | os.O_CREATE | os.O_EXCL)
	if err != nil {
		return nil, err
	}
	return &File{f, own, to}, nil
}

// Commit closes the file and puts it at its path, in the place of what is there. With the error that writing met, and on one of its
// own, nothing is left behind and nothing changes at the path.
func (f *File) Commit(err error) error {
	err = errors.Join(err, f.Close())
	if err == nil {
		err = f.own.rename(f.to)
	}
	if err != nil {
		return errors.Join(err, f.own.remove())
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
