// Package readfile reads files that somebody else may have made: regular ones only, and no more of them than makes sense.
package readfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Errors of files that are not read; each comes with the file's name.
var (
	// ErrNotRegular: a folder, a device, a FIFO or a socket, also behind a link.
	ErrNotRegular = errors.New("no regular file")
	// ErrTooLarge: more bytes than any honest file of its kind has.
	ErrTooLarge = errors.New("too large")
)

// Open opens a regular file. It waits for nobody at the other end of a FIFO.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0)
	return regular(f, err)
}

// OpenIn opens a file of a folder that is held and that somebody else may have made, as Open does. It follows no link out of the folder,
// which may lead to a file that its maker could not read.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, flags, 0)
	file := filepath.Join(root.Name(), name)
	if is, _ := root.Lstat(name); err != nil && is != nil && is.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s: %w: it is a link that leads out of its folder, or nowhere", file, ErrNotRegular)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		at.Path = file
	}
	return regular(f, err)
}

// Read reads a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	return read(f, err, most)
}

// ReadIn reads one of a folder that is held, as Read does. It follows no link out of the folder.
func ReadIn(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	return read(f, err, most)
}

const flags = os.O_RDONLY | syscall.O_NONBLOCK

func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", f.Name(), ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func read(f *os.File, err error, most int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: %w: more than %d bytes", f.Name(), ErrTooLarge, most)
	}
	return text, err
}
