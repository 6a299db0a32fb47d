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

// A node that is told of servers of a cluster, and of ways of its own, reaches by these whom the servers name.
func TestClusterByOwnWays(t *testing.T) {
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
		master, err := c.(*redis.ClusterClient).MasterForKey(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := master.Options().Dialer(ctx, "tcp", r.Master().Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if _, direct := s.ways[conn.RemoteAddr().String()]; !direct || master.Options().Addr != r.Master().Addr() {
			t.Errorf("the key is asked for at %s, and its master is %s", conn.RemoteAddr(), r.Master().Addr())
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
