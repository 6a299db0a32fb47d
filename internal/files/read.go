package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Reasons for which a file is not read.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrTooLarge   = errors.New("too large")
)

// Open opens a file of a folder that somebody else may have made. It refuses a link that leads out of the folder, a file that is not
// regular and one of more than limit bytes.
func Open(dir, name string, limit int64) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	st, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", dir, err)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), ErrNotRegular)
	case st.Size() > limit:
		return nil, fmt.Errorf("%s: %w: it has %d bytes, at most %d are read", filepath.Join(dir, name), ErrTooLarge, st.Size(), limit)
	}
	return root.Open(name)
}

// Read opens a file as Open does and returns its content.
func Read(dir, name string, limit int64) ([]byte, error) {
	f, err := Open(dir, name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
