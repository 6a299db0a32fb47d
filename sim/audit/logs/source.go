package logs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// source is one file or pipe of lines. Its entries are nearly in order of time.
type source struct {
	name    string
	in      *bufio.Reader
	entries int64  // of leases or instances
	last    int64  // largest time of an entry
	cut     []byte // the beginning of a line whose end is not read yet
	ended   bool
	idle    bool // all that is written was read
	grows   bool // more may be written after the end
}

// Open opens a file, compressed or not; "-" is standard input. A pipe that is followed keeps its reader from waiting.
func Open(name string, follow bool) (io.ReadCloser, error) {
	file := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		file = f
	}
	if st, err := file.Stat(); follow && err == nil && !st.Mode().IsRegular() {
		return newPipe(file), nil
	}
	in := bufio.NewReaderSize(file, 256<<10)
	if head, _ := in.Peek(2); string(head) != "\x1f\x8b" {
		return &opened{in, file}, nil
	}
	r, err := gzip.NewReader(in)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &opened{r, file}, nil
}

type opened struct {
	io.Reader
	io.Closer
}

// next returns the next line, or nothing if there is none or an empty one; end says that the file ends in it.
func (s *source) next() (text []byte, end bool, err error) {
	text, err = s.in.ReadSlice('\n')
	if err != nil || len(s.cut) > 0 { // a long line, or the end
		s.cut = append(s.cut, text...)
		text = s.cut
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, false, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, false, fmt.Errorf("%s: %w", s.name, err)
	case err != nil && s.grows:
		s.idle = true
		return nil, false, nil
	}
	s.cut, s.ended = s.cut[:0], err != nil
	return bytes.TrimSpace(text), s.ended, nil
}
