package proxy

import (
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// A connection that comes while its proxy is closed ends, and what toxiproxy passes on to it waits for nobody.
func TestAConnectionOfAClosedProxyEnds(t *testing.T) {
	in, out := make(chan *stream.StreamChunk), make(chan *stream.StreamChunk)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&toxic{Direction: "closed"}).Pipe(toxics.NewToxicStub(in, out))
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
