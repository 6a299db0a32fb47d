package redisflags

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// With its own proxies for the servers of a cluster, a node reaches through them every address that the servers name.
func TestClusterByOwnWaysLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of seven servers")
	}
	const key = "{tag}:key"
	r := redistest.StartClustered(t, key)
	var own, ways []string
	for _, s := range r.Servers {
		own = append(own, detour(t, s.Addr()))
		ways = append(ways, s.Addr()+"="+own[len(own)-1])
	}
	s := Settings{URL: "redis://elsewhere"}
	s.Cluster, s.envWays = own[len(own)-1], strings.Join(ways, ",") // of one that never has the slot
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	c, err := s.Universal("node", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, move := range []func(){func() {}, r.Move} {
		move()
		if err := c.Set(ctx, key, "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
		master := masterOf(ctx, t, c.(*redis.ClusterClient), key, r.Master().Addr())
		conn, err := master.Options().Dialer(ctx, "tcp", r.Master().Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if _, direct := s.ways[conn.RemoteAddr().String()]; !direct {
			t.Errorf("the key's master %s is reached at %s, which is no server", r.Master().Addr(), conn.RemoteAddr())
		}
	}
}

// masterOf returns the client of the key's master once that is addr. After a redirect, go-redis learns of the master in the background.
func masterOf(ctx context.Context, t *testing.T, c *redis.ClusterClient, key, addr string) *redis.Client {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		master, err := c.MasterForKey(ctx, key)
		if err == nil && master.Options().Addr == addr {
			return master
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("the key's master is %s, and the client does not come to know it: %v", addr, err)
		}
	}
}

func TestNoDatabaseOfACluster(t *testing.T) {
	s := Settings{URL: "redis://h/1"}
	s.Cluster = "127.0.0.1:1"
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Universal("node", io.Discard); err == nil || c != nil || !strings.Contains(err.Error(), "database") {
		t.Errorf("%v, %v; want an error that names the database", c, err)
	}
}
