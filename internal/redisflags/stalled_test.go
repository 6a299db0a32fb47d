package redisflags

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// silent accepts connections, tells when the first of them was given up, and says nothing.
func silent(t *testing.T) (addr string, givenUp <-chan error) {
	t.Helper()
	first := make(chan error, 1)
	return servetest.Serve(t, func(c net.Conn) {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := io.Copy(io.Discard, c)
		select {
		case first <- err:
		default:
		}
	}), first
}

// A server of TLS that accepts a connection and says nothing is given up when the attempt is over: it is the only dial at a time, and an
// owner would lose all that it holds, for good, though Redis is back (G9).
func TestHandshakeThatStalls(t *testing.T) {
	for _, how := range []string{"one server", "sentinels", "a cluster"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			addr, givenUp := silent(t)
			s := Settings{URL: "rediss://" + addr}
			switch how {
			case "sentinels":
				s.Sentinels, s.masterName = addr, "m"
			case "a cluster":
				s.Cluster = addr
			}
			if err := s.Complete(); err != nil {
				t.Fatal(err)
			}
			client, err := s.Universal("node", io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			store, err := redisstore.New(client, redisstore.Options{OpTimeout: 100 * time.Millisecond, Quarantine: time.Second, PoolSize: 1,
				LeasePrefix: "{p}l:", NodePrefix: "{p}n:", EpochKey: "{p}e"})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if a := store.Do(t.Context(), &core.Op{Kind: core.OpObserve}); a.Failure == core.FailNone {
				t.Fatal("nobody answers")
			}
			if err := <-givenUp; os.IsTimeout(err) {
				t.Error("the connection is still held")
			}
		})
	}
}
