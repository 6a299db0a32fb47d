// Package zstdfile reads compressed files that somebody else may have made: no more of them, and no longer, than what they hold is worth.
package zstdfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrSize: the file was made to keep its reader busy. 300 KB can hold 3 GB, and a file without end can hold nothing.
var ErrSize = errors.New("its size does not fit what it holds")

// Slack is how many bytes both limits leave, whatever the file's size.
const Slack = 1 << 20

// Reader reads what a file holds. Both limits count what was read of it, not what its size is said to be: that of a hole costs nothing.
type Reader struct {
	file       io.Reader
	z          *zstd.Decoder
	most       int64 // NewReader
	read, held int64
	refused    error // the decoder does not tell of every error
}

// NewReader returns a reader of a file that may want window bytes of itself to be remembered, and hold most times its size; 0: whatever the
// caller takes. It is to be closed.
func NewReader(file io.Reader, window uint64, most int64) (*Reader, error) {
	r := &Reader{file: file, most: most}
	var err error
	r.z, err = zstd.NewReader((*compressed)(r), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
	return r, err
}

// Read implements io.Reader; it returns ErrSize for a file that no honest hand made.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.z.Read(p)
	if r.held += int64(n); r.most > 0 && r.held > Slack+r.most*r.read {
		r.refused = fmt.Errorf("%w: it unpacks to more than %d times its size", ErrSize, r.most)
	}
	if r.refused != nil {
		return 0, r.refused
	}
	return n, err
}

// Close gives up what reading took; the file is the caller's.
func (r *Reader) Close() { r.z.Close() }

// compressed is a Reader as its decoder reads from it.
type compressed Reader

// Read implements io.Reader.
func (c *compressed) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	if c.read += int64(n); c.read > c.held+Slack {
		c.refused = fmt.Errorf("%w: it holds less than it is long", ErrSize)
		return 0, c.refused
	}
	return n, err
}
