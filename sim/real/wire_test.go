package real

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// generous is an upstream that answers each byte with many, for as long as they are taken.
func generous(t *testing.T, reply []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				for ask := []byte{0}; err == nil; {
					if _, err = c.Read(ask); err == nil {
						_, err = c.Write(reply)
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// What wires keep has a bound for all together: connections that ask and read nothing end the run, which says so, and are ended.
func TestWiresKeepNoMoreThanTheyMay(t *testing.T) {
	const most, reply = 8 << 20, 1 << 20
	told := make(chan error, 100)
	l, err := newLine("node-1", loopback, endpoint{"tcp", generous(t, make([]byte, reply))}, 1, 1, func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	shared := room{max: most}
	l.up.room, l.down.room = &shared, &shared
	if err := l.apply(1, effect{down: network{hold: true}}); err != nil { // so that no buffer of the machine takes what is sent
		t.Fatal(err)
	}
	var all []net.Conn
	for range 4 {
		c := dial(t, l.addr())
		send(t, c, "xxxx")
		all = append(all, c)
	}
	select {
	case err := <-told:
		if !errors.Is(err, ErrStarved) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%d bytes are kept, and nobody was told", shared.kept.Load())
	}
	if err := l.heal(1); err != nil {
		t.Fatal(err)
	}
	whole, cut := 0, 0
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		switch n, err := io.CopyN(io.Discard, c, 4*reply); {
		case err == nil:
			whole++
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Errorf("a connection hangs after %d bytes", n)
		default:
			cut++
		}
	}
	if whole == 0 || cut == 0 {
		t.Errorf("%d connections were served, %d ended: want those ended that had no room", whole, cut)
	}
	l.close()
	tick, late := time.NewTicker(time.Millisecond), time.NewTimer(30*time.Second)
	defer tick.Stop()
	defer late.Stop()
	for shared.kept.Load() != 0 {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("%d bytes are still counted after all connections have ended", shared.kept.Load())
		}
	}
}
