package poll

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

// gate accepts connections before a Redis and counts them. It answers each with says and closes it, or answers every request with it; "":
// it passes the connection on.
type gate struct {
	says   string
	ends   bool
	open   atomic.Bool
	dials  atomic.Int64
	heard  atomic.Int64 // subscriptions among the connections to Redis
	behind func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.dials.Add(1)
	if g.open.Load() {
		conn, err := g.behind(ctx, network, addr)
		return hearing{conn, g}, err
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		for b := make([]byte, 4096); ; {
			n, err := far.Read(b)
			if err != nil || g.says == "" || g.open.Load() {
				return
			}
			for range bytes.Count(b[:n], []byte("*")) {
				if _, err := io.WriteString(far, g.says); err != nil || g.ends {
					return
				}
			}
		}
	}()
	return near, nil
}

type hearing struct {
	net.Conn
	g *gate
}

func (h hearing) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "\r\nsubscribe\r\n") {
		h.g.heard.Add(1)
	}
	return h.Conn.Write(b)
}

// If a Redis has no room for another client, loads, or hangs up, an instance connects more and more rarely, over all kinds of connections
// together. When Redis has room again, the instance uses it (G14).
func TestConnectionsThatAreRefusedAreMadeRarely(t *testing.T) { // G14
	const interval = 200 * time.Second // of a TTL of 10 m
	// Per interval: 24 probes of a silent Redis; subscriptions after 10, 20, 40 ms, … 10.24 s, then nine times after 20 s; if Redis
	// answers, 5 checks of the server; at the start a discovery, the checks, and a first subscription.
	const most = 24 + 20 + 5 + 15
	for name, g := range map[string]*gate{
		"hangs up":                        {},
		"has no room":                     {says: "-ERR max number of clients reached\r\n", ends: true},
		"loads":                           {says: "-LOADING Redis is loading the dataset in memory\r\n"},
		"says no more than that it fails": {says: "-ERR\r\n"},
	} {
		for _, db := range []int{0, 1} { // SELECT fails where a refused HELLO does not
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g.open.Store(false)
					g.dials.Store(0)
					g.heard.Store(0)
					o := *leasetest.New(t).Client().Options()
					g.behind, o.Dialer, o.DB = o.Dialer, g.dial, db
					client := redis.NewClient(&o)
					defer client.Close()
					m, err := New(client, lease.Config{TTL: 3 * interval, Logger: zap.NewNop()}, Config{Poll: nothing})
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					for at, most := range []int64{most, 24 + 12 + 5} { // the second interval has no start
						before := g.dials.Load()
						<-time.After(interval)
						n := g.dials.Load() - before
						t.Logf("%d connections in renewal interval %d", n, at+1)
						if n > most {
							t.Errorf("more than %d connections in renewal interval %d: %d", most, at+1, n)
						}
					}
					g.open.Store(true)
					<-time.After(interval / 4)
					if g.heard.Load() == 0 || m.Health().State == lease.HealthSilent || m.Health().State == lease.HealthRefused {
						t.Errorf("once there is room the channel is heard by %d connections; %v", g.heard.Load(), m.Health())
					}
					if err := m.Stop(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
