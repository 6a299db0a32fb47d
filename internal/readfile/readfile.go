// Package readfile reads files that somebody else may have made: regular ones only, and no more of them than makes sense.
package readfile

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read reads a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: %w: more than %d bytes", path, ErrTooLarge, most)
	}
	return text, err
}
