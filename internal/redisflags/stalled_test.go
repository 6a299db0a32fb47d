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

// silent accepts connections, sends nothing, and reports when the first one was closed.
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

// A silent TLS server is given up at the end of the attempt. It is the only dial at a time, so an owner would otherwise lose its leases
// forever although Redis is back (G9).
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
