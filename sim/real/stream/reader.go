package stream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

var errProtocol = errors.New("unexpected bytes in the replication stream")

// argKeep is how many bytes of an argument are kept. Keys and values of leases are shorter.
const argKeep = 4096

// readCommand reads one command of the replication stream and reuses the storage of words. An empty command is a keep-alive.
func readCommand(r *bufio.Reader, words [][]byte) ([][]byte, error) {
	head, err := readLine(r)
	if err != nil {
		return nil, err
	}
	words = words[:0]
	if len(head) == 0 {
		return words, nil
	}
	if head[0] != '*' {
		return append(words, bytes.Fields(bytes.Clone(head))...), nil
	}
	n, err := strconv.Atoi(string(head[1:]))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%w: %q", errProtocol, head)
	}
	for range n {
		word, err := readBulk(r)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func readBulk(r *bufio.Reader) ([]byte, error) {
	head, err := readLine(r)
	if err != nil {
		return nil, err
	}
	if len(head) < 2 || head[0] != '$' {
		return nil, fmt.Errorf("%w: %q", errProtocol, head)
	}
	size, err := strconv.Atoi(string(head[1:]))
	if err != nil || size < 0 {
		return nil, fmt.Errorf("%w: %q", errProtocol, head)
	}
	word := make([]byte, min(size, argKeep))
	if _, err := io.ReadFull(r, word); err != nil {
		return nil, err
	}
	if _, err := r.Discard(size - len(word) + 2); err != nil {
		return nil, err
	}
	return word, nil
}

// readLine returns a line without its end; valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%w: a line without end", errProtocol)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// skipSnapshot skips the RDB at the start of a synchronization, of known length or up to a mark.
func skipSnapshot(r *bufio.Reader) error {
	head, err := readLine(r)
	for err == nil && len(head) == 0 { // keep-alives while the master prepares it
		head, err = readLine(r)
	}
	switch {
	case err != nil:
		return err
	case len(head) < 2 || head[0] != '$':
		return fmt.Errorf("%w: %q instead of a snapshot", errProtocol, head)
	}
	mark, streamed := bytes.CutPrefix(head, []byte("$EOF:"))
	if streamed {
		return skipTo(r, bytes.Clone(mark))
	}
	size, err := strconv.ParseInt(string(head[1:]), 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("%w: %q", errProtocol, head)
	}
	_, err = io.CopyN(io.Discard, r, size)
	return err
}

func skipTo(r *bufio.Reader, mark []byte) error {
	tail := make([]byte, 0, len(mark))
	for !bytes.Equal(tail, mark) {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if len(tail) == len(mark) {
			tail = append(tail[:0], tail[1:]...)
		}
		tail = append(tail, b)
	}
	return nil
}

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
