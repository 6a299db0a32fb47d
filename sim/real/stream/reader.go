package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const emptyEvery = 20 * time.Millisecond

// reader reads a connection and tracks when it was last empty: bytes read later arrived after that time.
type reader struct {
	net.Conn
	raw   syscall.RawConn // nil: empty is not tracked
	now   func() int64
	empty int64
}

// watch tracks empty from now on.
func (r *reader) watch(now func() int64) (err error) {
	r.now = now
	r.raw, err = r.Conn.(syscall.Conn).SyscallConn()
	return err
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (n int, err error) {
	if r.raw == nil {
		return r.Conn.Read(b)
	}
	for {
		_ = r.SetReadDeadline(time.Now().Add(emptyEvery))
		waited := r.raw.Read(func(fd uintptr) (done bool) {
			before := r.now()
			if n, err = syscall.Read(int(fd), b); errors.Is(err, syscall.EAGAIN) {
				r.empty = before
				return false
			}
			return true
		})
		switch {
		case errors.Is(waited, os.ErrDeadlineExceeded), waited == nil && errors.Is(err, syscall.EINTR):
			continue
		case waited != nil:
			return 0, waited
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
