package host

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// failing is a listener whose accepts fail.
type failing struct {
	net.Listener
	err error
}

func (f failing) Accept() (net.Conn, error) { return nil, f.err }

func TestOutOfFilesIsTheHarness(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "accept", Err: syscall.EMFILE}, true}, {syscall.ENFILE, true}, {syscall.ECONNABORTED, false}, {net.ErrClosed, false},
	} {
		var told error
		l := Listener{failing{err: tt.err}, func(err error) { told = err }}
		if _, err := l.Accept(); !errors.Is(err, tt.err) {
			t.Errorf("%v: accept says %v", tt.err, err)
		}
		if errors.Is(told, ErrNoVerdict) != tt.want {
			t.Errorf("%v: told %v", tt.err, told)
		}
	}
}
