package real

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/leasestorm/leasestorm/internal/servetest"
)

// generous is an upstream that answers each byte with many, for as long as they are taken.
func generous(t *testing.T, reply []byte) string {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) {
		for ask := []byte{0}; ; {
			if _, err := c.Read(ask); err != nil {
				return
			}
			if _, err := c.Write(reply); err != nil {
				return
			}
		}
	})
}

// A connection that comes while its line is closed ends, and what toxiproxy passes on to it waits for nobody.
func TestAConnectionOfAClosedLineEnds(t *testing.T) {
	in, out := make(chan *stream.StreamChunk), make(chan *stream.StreamChunk)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&wire{Direction: "closed"}).Pipe(toxics.NewToxicStub(in, out))
	}()
	for range 2 {
		select {
		case in <- &stream.StreamChunk{Data: []byte("PING\r\n")}:
		case <-time.After(30 * time.Second):
			t.Fatal("nobody takes what was sent")
		}
	}
	close(in)
	<-ended
	if c, open := <-out; open {
		t.Errorf("%q was passed on", c.Data)
	}
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
	patient := dial(t, l.addr())
	send(t, patient, "xx")
	eventually(t, "what was asked for is not kept", func() bool { return shared.kept.Load() >= 2*reply })
	all := []net.Conn{patient}
	for range 3 {
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
	cut := 0
	for i, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		want := int64(4 * reply)
		if c == patient {
			want = 2 * reply
		}
		switch n, err := io.CopyN(io.Discard, c, want); {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Errorf("connection %d hangs after %d bytes", i, n)
		case c == patient:
			t.Errorf("who asked for no more than there is room for was ended after %d bytes: %v", n, err)
		default:
			cut++
		}
	}
	if cut == 0 {
		t.Error("all were served: want those ended that had no room")
	}
	l.close()
	eventually(t, "bytes are still counted after all connections have ended", func() bool { return shared.kept.Load() == 0 })
}
