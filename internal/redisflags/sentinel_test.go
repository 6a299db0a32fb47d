package redisflags

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// detour is a proxy to addr.
func detour(t *testing.T, addr string) string {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) {
		if to, err := net.Dial("tcp", addr); err == nil {
			go func() { _, _ = io.Copy(c, to); _ = c.Close() }()
			_, _ = io.Copy(to, c)
			_ = to.Close()
		}
	})
}

// With sentinels and its own proxies, a node writes to the master through these, also after a failover. Its connections have the master's
// address, which shows a failover.
func TestSentinelsByOwnWays(t *testing.T) {
	r := redistest.StartReplicated(t)
	var sentinels, ways []string
	for _, s := range r.Sentinels {
		own := detour(t, s.Addr())
		sentinels, ways = append(sentinels, own), append(ways, s.Addr()+"="+own)
	}
	for _, s := range r.Servers {
		ways = append(ways, s.Addr()+"="+detour(t, s.Addr()))
	}
	s := Settings{URL: "redis://elsewhere", sentinelSettings: sentinelSettings{
		Sentinels: strings.Join(sentinels, ","), masterName: redistest.MasterName, envWays: strings.Join(ways, ","),
	}}
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	c, err := s.Client("node", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	written := func(to *redistest.Server, key string) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for to.Do("GET", key) == nil {
			if err := c.Set(ctx, key, "1", 0).Err(); ctx.Err() != nil {
				t.Fatalf("%s is not written to %s: %v", key, to.Addr(), err)
			}
		}
		conn, err := c.Options().Dialer(ctx, "tcp", "FailoverClient")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if conn.RemoteAddr().String() != to.Addr() {
			t.Errorf("a connection to %v, want %s", conn.RemoteAddr(), to.Addr())
		}
	}
	written(r.Servers[0], "before")
	written(r.Failover(), "after")
}

func TestNoWayOfAnotherToTLS(t *testing.T) {
	s := Settings{URL: "rediss://h", sentinelSettings: sentinelSettings{
		Sentinels: "127.0.0.1:1", masterName: "m", envWays: "127.0.0.1:2=127.0.0.1:3",
	}}
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client("node", io.Discard); err == nil || !strings.Contains(err.Error(), waysVariable) {
		t.Errorf("%v; want an error that names %s", err, waysVariable)
	}
}

// A password before an address, given by mistake, is neither repeated nor taken for a part of the host, which dial errors show.
func TestNoPasswordBeforeAnAddress(t *testing.T) {
	const canary = "c4n4ry"
	for _, text := range []string{"u:" + canary + "@h:1", canary + "@h:1", "h:2,:" + canary + "@h:1", "u:" + canary + "@h"} {
		for flag, s := range map[string]sentinelSettings{"--sentinels": {Sentinels: text}, waysVariable: {envWays: text}} {
			s.masterName = "m"
			if err := s.complete(); err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), flag) {
				t.Errorf("%s %s: %v", flag, text, err)
			}
		}
		s := Settings{URL: "redis://h"}
		s.Cluster = text
		if err := s.Complete(); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("--cluster %s: %v", text, err)
		}
	}
}

// A password from elsewhere replaces the one in the URL.
func TestPasswordFromElsewhere(t *testing.T) {
	s := Settings{URL: "redis://u:old@h:1/3", envPassword: "new"}
	client, err := s.Client("node", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if o := client.Options(); o.Password != "new" || o.Username != "u" || o.DB != 3 {
		t.Errorf("connects as %s to database %d", o.Username, o.DB)
	}
	s = Settings{URL: "http://h"}
	if _, err := s.Client("node", io.Discard); err == nil {
		t.Error("http is taken for a Redis")
	}
}
