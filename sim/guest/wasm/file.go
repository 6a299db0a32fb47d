package wasm

// Errors of WASI preview 1.
const (
	success      errno = 0
	eagain       errno = 6
	ebadf        errno = 8
	econnrefused errno = 14
	econnreset   errno = 15
	ehostunreach errno = 23
	einval       errno = 28
	eio          errno = 29
	enetunreach  errno = 40
	enoent       errno = 44
	enosys       errno = 52
	epipe        errno = 64
	etimedout    errno = 73
)

type errno uint32

// connectErrors are the failures of a connection that a program can tell apart.
var connectErrors = map[string]errno{
	"":                         success,
	"connection refused":       econnrefused,
	"connection reset by peer": econnreset,
	"connection timed out":     etimedout,
	"no route to host":         ehostunreach,
	"network is unreachable":   enetunreach,
}

func connectErrno(failure string) errno {
	if e, ok := connectErrors[failure]; ok {
		return e
	}
	return eio
}

// file is what a descriptor stands for: a standard stream, a connection, one end of a pipe, or the signals.
type file struct {
	conn       bool  // connected through the host
	connecting bool  // Connected is to come
	failure    errno // result of the dial

	unread [][]byte // not empty
	ended  bool     // nothing comes after unread
	reset  bool     // the next use of the connection reports a reset
	broken bool     // a reset was or will be reported

	to     *file // reader of the pipe that this end writes
	closed bool
}

func (f *file) append(b []byte) {
	if len(b) > 0 {
		f.unread = append(f.unread, b)
	}
}

func (f *file) readable() bool { return len(f.unread) > 0 || f.ended || f.failure != success }

func (f *file) writable() bool { return !f.connecting }

// read fills p; n = 0 without an error is the end.
func (f *file) read(p []byte) (n int, e errno) {
	if f.reset {
		f.reset = false
		return 0, econnreset
	}
	if len(f.unread) == 0 && !f.ended {
		return 0, eagain
	}
	for n < len(p) && len(f.unread) > 0 {
		c := copy(p[n:], f.unread[0])
		n += c
		if f.unread[0] = f.unread[0][c:]; len(f.unread[0]) == 0 {
			f.unread[0] = nil
			f.unread = f.unread[1:]
		}
	}
	return n, success
}

// writeError returns why a connection takes no more.
func (f *file) writeError() errno {
	switch {
	case f.connecting:
		return eagain
	case f.reset:
		f.reset = false
		return econnreset
	case f.broken || f.failure != success:
		return epipe
	}
	return success
}
