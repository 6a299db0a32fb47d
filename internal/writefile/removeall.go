package writefile

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll removes path and all that is in it, as os.RemoveAll does, but whoever wrote the folder cannot have it stay: os.RemoveAll holds
// a file descriptor for each level, of which folders may have more than a process may open, and gives up where a mode forbids to look. Here
// what is in a folder in the folder is moved up before it is looked at, so that three descriptors do. It follows no link, and returns the
// first error.
func RemoveAll(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // no folder, or an empty one
	}
	if info, lerr := os.Lstat(path); lerr != nil || !info.IsDir() {
		return err
	}
	above, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	base := filepath.Base(path)
	top, err := enter(above, base)
	if err != nil {
		return err
	}
	defer top.Close()
	for left := true; left; {
		if left, err = emptied(top, func(name string) error { return flatten(top, name) }); err != nil {
			return err
		}
	}
	return above.Remove(base)
}

// enter opens a folder, whatever its mode says.
func enter(in *os.Root, name string) (*os.Root, error) {
	if err := in.Chmod(name, 0o700); err != nil {
		return nil, err
	}
	return in.OpenRoot(name)
}

// flatten moves all folders that are in the one of that name to top, and removes it.
func flatten(top *os.Root, name string) error {
	dir, err := enter(top, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for left := true; left; {
		left, err = emptied(dir, func(inside string) error {
			if err := dir.Chmod(inside, 0o700); err != nil { // who moves a folder writes to it
				return err
			}
			return top.Rename(filepath.Join(name, inside), rand.Text())
		})
		if err != nil {
			return err
		}
	}
	return top.Remove(name)
}

// seenAtOnce is how many entries of a folder are read together.
const seenAtOnce = 256

// emptied removes what is in dir, folders by f. It reports whether there was anything: then there may be more.
func emptied(dir *os.Root, f func(name string) error) (any bool, err error) {
	list, err := dir.Open(".")
	if err != nil {
		return false, err
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(seenAtOnce)
		for _, e := range entries {
			any = true
			remove := dir.Remove
			if e.IsDir() {
				remove = f
			}
			if err := remove(e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return any, err
			}
		}
		if errors.Is(err, io.EOF) {
			return any, nil
		}
		if err != nil {
			return any, err
		}
	}
}
