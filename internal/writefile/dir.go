package writefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/readfile"
)

// ErrReplaced: another folder, or none, is at the path where one was opened.
var ErrReplaced = errors.New("the folder was replaced meanwhile")

// Dir is a folder that is the same from when it was opened on, whatever somebody puts at its path meanwhile.
type Dir struct {
	root *os.Root
	path string
}

// made are the folders of NewDir and HoldDir that are open, by their path as filepath.Clean has it.
var made sync.Map // string → *Dir

// NewDir makes a folder with folders in it and holds it: until Close all that this package writes below its path goes there, also where
// somebody who may rename it has put another one, or a link, in its place. One that is there is refused (fs.ErrExist).
func NewDir(path string, inside ...string) (*Dir, error) {
	path = filepath.Clean(path)
	to := at(path)
	if to.root == nil {
		parent, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer func() { _ = parent.Close() }()
		to = place{parent, filepath.Base(path)}
	}
	if err := to.root.Mkdir(to.path, 0o755); err != nil {
		return nil, err
	}
	root, err := to.root.OpenRoot(to.path) // of a link that was put there it follows none that leads out of the parent
	if err != nil {
		return nil, err
	}
	if there, err := fs.ReadDir(root.FS(), "."); err != nil || len(there) > 0 { // another was put there before it was opened
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrReplaced), err, root.Close())
	}
	for _, folder := range inside {
		if err := root.Mkdir(folder, 0o755); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}
	return hold(root, path), nil
}

// HoldDir holds a folder, as NewDir does one that it makes. Where there is none it is made, and those above it.
func HoldDir(path string) (*Dir, error) {
	path = filepath.Clean(path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return hold(root, path), nil
}

// hold has what is written below path go to root until Close.
func hold(root *os.Root, path string) *Dir {
	d := &Dir{root, path}
	made.Store(path, d)
	return d
}

// MakeAll makes a folder, and those above it, where there are none. One that is held is there.
func MakeAll(path string) error {
	path = filepath.Clean(path)
	if _, held := made.Load(path); held {
		return nil
	}
	if to := at(path); to.root != nil {
		return to.root.MkdirAll(to.path, 0o755)
	}
	return os.MkdirAll(path, 0o755)
}

// OpenDir opens a folder.
func OpenDir(path string) (*Dir, error) {
	if d, ok := made.Load(filepath.Clean(path)); ok {
		root, err := d.(*Dir).root.OpenRoot(".")
		return &Dir{root, path}, err
	}
	root, err := os.OpenRoot(path + string(filepath.Separator)) // with it a pipe is refused; without, it is waited for
	if err != nil {
		return nil, err
	}
	return &Dir{root, path}, nil
}

// errNoFolder: something else stands where a folder is to be.
var errNoFolder = errors.New("it is no folder")

// Folder opens the folder of that name in this one, as Open does, and makes it if there is none.
func (d *Dir) Folder(name string) (*Dir, error) {
	if err := d.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return d.Open(name)
}

// Open opens the folder of that name in this one. A link is none: it may lead anywhere.
func (d *Dir) Open(name string) (*Dir, error) {
	there, err := d.root.Lstat(name)
	if err == nil && !there.IsDir() {
		err = errNoFolder
	}
	if err != nil {
		return nil, err
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	in := &Dir{root, filepath.Join(d.path, name)}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(there, opened) {
		return nil, errors.Join(fmt.Errorf("%s: %w", in.path, ErrReplaced), in.Close())
	}
	return in, nil
}

// Path is where the folder was opened. What reads the folder reads it by Root: another may be there now.
func (d *Dir) Path() string { return d.path }

// Root is the folder as what reads its files takes it.
func (d *Dir) Root() *os.Root { return d.root }

// Close gives the folder up. It may be called twice, and of nil.
func (d *Dir) Close() error {
	if d == nil {
		return nil
	}
	made.CompareAndDelete(d.path, d)
	return d.root.Close()
}

// Same returns ErrReplaced if what is in the folder is not found at Path.
func (d *Dir) Same() error {
	held, err := d.root.Stat(".")
	if err != nil {
		return err
	}
	if there, err := os.Stat(d.Path()); err != nil || !os.SameFile(held, there) {
		return fmt.Errorf("%s: %w", d.Path(), ErrReplaced)
	}
	return nil
}

// Changed is when something was last put into the folder or taken out of it.
func (d *Dir) Changed() (time.Time, error) {
	st, err := d.root.Stat(".")
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}

// Remove removes a file, or a folder that is empty, of the folder.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// Discard removes the folder with all that is in it. Of what stands at its path in its place only a folder that is empty would go.
func (d *Dir) Discard() error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, d.root.RemoveAll(e.Name()))
	}
	return errors.Join(err, os.Remove(d.path))
}

// Create begins a file in the folder, as the function Create does at a path.
func (d *Dir) Create(name string) (*File, error) { return create(place{d.root, name}) }

// Write puts data into the folder under a name, in the place of what is there, or changes nothing.
func (d *Dir) Write(name string, data []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return f.Commit(err)
}

// CopyTo copies the folder's regular files into another folder, except one, and at most so many bytes in all (readfile.ErrTooLarge).
func (d *Dir) CopyTo(to *Dir, except string, most int64) error {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == except {
			continue
		}
		data, err := readfile.ReadIn(d.root, e.Name(), most)
		if err != nil {
			return err
		}
		if err := to.Write(e.Name(), data); err != nil {
			return err
		}
		most -= int64(len(data))
	}
	return nil
}
