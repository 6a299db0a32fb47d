package real

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/servetest"
	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Whoever answers in the place of an API that is down neither keeps the storm from its end nor sends its clients elsewhere.
func TestClientsOfWhoIsNoAPI(t *testing.T) {
	elsewhere := servetest.Serve(t, func(net.Conn) { t.Error("a client was sent elsewhere") })
	for says, want := range map[string]int{
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                                            0,
		fmt.Sprintf("HTTP/1.1 307 Elsewhere\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n", elsewhere): http.StatusTemporaryRedirect,
	} {
		api := servetest.Serve(t, func(c net.Conn) {
			in := bufio.NewReader(c)
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			_, _ = io.WriteString(c, says)
			_, _ = io.Copy(io.Discard, in) // until the client closes
		})
		r := &run{
			clock: newClock(), cfg: Config{Timings: timing.Timings{TTL: 10 * time.Second}},
			order: []string{"node-1"}, slots: map[string]*slot{"node-1": {name: "node-1", api: api}},
		}
		c := r.startClients(t.Context())
		answered := make(chan int, 1)
		go func() {
			status, _ := c.Send("node-1", &client.Request{Method: http.MethodPost, Path: "/", Body: "{}"})
			answered <- status
		}()
		select {
		case status := <-answered:
			if status != want {
				t.Errorf("%q: status %d, want %d", says, status, want)
			}
			c.close()
		case <-time.After(30 * time.Second):
			t.Errorf("%q: the client waits", says)
		}
	}
}
