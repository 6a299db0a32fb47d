package host

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNoVerdict: the run cannot be judged, because resources ran out or the history is incomplete. For example, no open files, ports or disk
// space are left, Redis hung for longer than a TTL without a fault, or a node dropped output.
var ErrNoVerdict = errors.New("the harness cannot go on, and no verdict is given")

// TellExhausted calls tell only if the harness has run out of files, or the machine of ports.
func TellExhausted(err error, tell func(error)) {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		tell(fmt.Errorf("%w: it has run out of open files: raise the limit (ulimit -n), or look who connects to its ports: %w",
			ErrNoVerdict, err))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		tell(fmt.Errorf("%w: this machine has no port left for a connection: look who holds them (ss -an): %w", ErrNoVerdict, err))
	}
}

// Listener is a listener that reports exhausted files and ports, as TellExhausted does.
type Listener struct {
	net.Listener
	Short func(error)
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		TellExhausted(err, l.Short)
	}
	return c, err
}

// Every calls f once a period, until stop is closed.
func Every(period time.Duration, stop <-chan struct{}, f func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-stop:
			return
		}
	}
}

// Sleep waits for d, or returns false once done is closed.
func Sleep(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

// Closed reports whether c is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// NetworkOf returns "unix" if addr is a path, as of a Redis in a container, and otherwise "tcp".
func NetworkOf(addr string) string {
	if filepath.IsAbs(addr) {
		return "unix"
	}
	return "tcp"
}

// Abrupt makes the end of a connection a reset.
func Abrupt(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// Reset ends a connection with a reset.
func Reset(c net.Conn) {
	Abrupt(c)
	_ = c.Close()
}
