package respguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/servetest"
)

// serveCluster is a server of a cluster that says what slots returns of its map, and nothing good of anything else.
func serveCluster(t *testing.T, slots func(host, port string) string) (addr string) {
	return serveWords(t, slots, func(words []string) string { return "ERR no: " + strings.Join(words, " ") + " of who has " + secret })
}

// serveWords is serveCluster with what it says of all else. Both are asked each time.
func serveWords(t *testing.T, slots func(host, port string) string, says func(words []string) string) (addr string) {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) {
		servetest.Commands(c, func(words []string) string {
			refusal := says(words)
			host, port, _ := net.SplitHostPort(c.LocalAddr().String())
			own := slots(host, port)
			switch words[0] {
			case "cluster":
				return own
			case "auth":
				return "+OK\r\n"
			}
			return "-" + refusal + "\r\n"
		})
	})
}

func clusterOf(addr string) *redis.ClusterClient {
	return NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, Password: secret, MaxRedirects: -1, DisableIdentity: true, Protocol: 2,
		Dialer: redis.NewDialer(&redis.Options{DialTimeout: dialTimeout}),
	})
}

// What one server of a cluster is asked, and not the cluster, shows no password either.
func TestThePasswordIsHiddenByEachServer(t *testing.T) {
	addr := serveCluster(t, func(host, port string) string {
		return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
	})
	c := clusterOf(addr)
	defer c.Close()
	ctx := context.Background()
	server, err := c.MasterForKey(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, piped := server.Pipelined(ctx, func(p redis.Pipeliner) error { p.Incr(ctx, "k"); return nil })
	each := c.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error { return server.Scan(ctx, 0, "*", 1).Err() })
	for what, err := range map[string]error{
		"of the cluster": c.Incr(ctx, "k").Err(), "of a server": server.Incr(ctx, "k").Err(), "in a pipeline": piped, "of all": each,
	} {
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "ERR no") {
			t.Errorf("%s: %v; want what the server said, without the password", what, err)
		}
	}
}

// A map that names more servers than any cluster has is refused before a client is made for each.
func TestAMapOfTooManyServers(t *testing.T) {
	for servers, refused := range map[int]bool{serversMax: false, serversMax + 1: true} {
		addr := serveCluster(t, func(host, port string) string {
			text := fmt.Sprintf("*1\r\n*%d\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", 2+servers, len(host), host, port)
			for n := 1; n < servers; n++ {
				text += fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", n)
			}
			return text
		})
		c := clusterOf(addr)
		if _, err := c.MasterForKey(context.Background(), "k"); errors.Is(err, ErrReply) != refused || (err != nil) != refused {
			t.Errorf("%d servers: %v", servers, err)
		}
		_ = c.Close()
	}
}

// clusterAt is a client of a cluster whose servers are all to be found at addr, and counts those that it makes clients for.
func clusterAt(t *testing.T, addr string) (c *redis.ClusterClient, made *atomic.Int64) {
	c = NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, MaxRedirects: -1, DisableIdentity: true, DisableRoutingPolicies: true, Protocol: 2,
		MaxRetries: -1, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { _ = c.Close() })
	made = &atomic.Int64{}
	c.OnNewNode(func(*redis.Client) { made.Add(1) })
	return c, made
}

func ownMap(host, port string) string {
	return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
}

// A server that sends its client to one place after another, be it in a pipeline, fills no memory with their addresses.
func TestTooManyRedirects(t *testing.T) {
	const long = 100 * addressMax // each counts as a hundred
	for _, redirect := range []string{"MOVED", "ASK"} {
		for what, ask := range map[string]func(ctx context.Context, c *redis.ClusterClient) error{
			"command": func(ctx context.Context, c *redis.ClusterClient) error { return c.Get(ctx, "k").Err() },
			"pipeline": func(ctx context.Context, c *redis.ClusterClient) error {
				cmds, _ := c.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "k"); return nil })
				return cmds[0].Err()
			},
		} {
			var n atomic.Int64
			addr := serveWords(t, ownMap, func([]string) string {
				return fmt.Sprintf("%s 1 %s%d.example:1", redirect, strings.Repeat("a", long), n.Add(1))
			})
			c, made := clusterAt(t, addr)
			var err error
			for range 3 * serversMax / 100 {
				err = ask(t.Context(), c)
			}
			if clients := made.Load(); !errors.Is(err, ErrReply) || clients < 2 || clients > serversMax/100+2 {
				t.Errorf("%s, %s: %d clients, %.300v", redirect, what, clients, err)
			}
		}
	}
}

// One pipeline names no more servers than many do: go-redis makes clients for all of them before anybody hears of the first.
func TestTooManyRedirectsOfOnePipeline(t *testing.T) {
	const long = 100 * addressMax
	for what, c := range map[string]func(address string) string{
		"MOVED":        func(address string) string { return "-MOVED 1 " + address + "\r\n" },
		"ASK":          func(address string) string { return "-ASK 1 " + address + "\r\n" },
		"a long MOVED": func(address string) string { return fmt.Sprintf("!%d\r\nMOVED 1 %s\r\n", 8+len(address), address) },
	} {
		var n atomic.Int64
		addr := servetest.Serve(t, func(conn net.Conn) {
			servetest.Commands(conn, func(words []string) string {
				if words[0] == "cluster" {
					host, port, _ := net.SplitHostPort(conn.LocalAddr().String())
					return ownMap(host, port)
				}
				return c(fmt.Sprintf("%s%d.example:1", strings.Repeat("a", long), n.Add(1)))
			})
		})
		client, made := clusterAt(t, addr)
		cmds, _ := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range 500 {
				p.Get(t.Context(), "k")
			}
			return nil
		})
		if clients := made.Load(); !errors.Is(cmds[499].Err(), ErrReply) || clients > serversMax/100+2 {
			t.Errorf("%s: %d clients, %.300v", what, clients, cmds[499].Err())
		}
	}
}

// Clients that were made of one believe in no more servers than one does, whoever of them asks.
func TestMapsOfTooManyServersOfSeveralClients(t *testing.T) {
	var n atomic.Int64
	addr := serveCluster(t, func(host, port string) string { return mapOf(host, port, serversMax*2/3, &n) })
	first, made := clusterAt(t, addr)
	derived := func(from *redis.ClusterClient) *redis.ClusterClient {
		c := redis.NewClusterClient(from.Options())
		t.Cleanup(func() { _ = c.Close() })
		HideInCluster(c, from)
		c.OnNewNode(func(*redis.Client) { made.Add(1) })
		return c
	}
	second := derived(first)
	for _, c := range []*redis.ClusterClient{first, second, derived(first), derived(second)} {
		_ = c.ForEachMaster(t.Context(), func(context.Context, *redis.Client) error { return nil })
	}
	if clients := made.Load(); clients > serversMax*2/3+4 {
		t.Errorf("%d clients, want those of the first map (%d), and the others' of the server that they were given", clients, serversMax*2/3)
	}
}

// mapOf is a map of a server and others, which are others each time.
func mapOf(host, port string, servers int, n *atomic.Int64) string {
	text := fmt.Sprintf("*1\r\n*%d\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", 2+servers, len(host), host, port)
	for range servers - 1 {
		at := n.Add(1)
		name := fmt.Sprintf("10.0.%d.%d", at/256, at%256)
		text += fmt.Sprintf("*2\r\n$%d\r\n%s\r\n:1\r\n", len(name), name)
	}
	return text
}

// Map after map, each of other servers, is no more than one of all.
func TestMapsOfTooManyServers(t *testing.T) {
	var n atomic.Int64
	addr := serveCluster(t, func(host, port string) string { return mapOf(host, port, serversMax*2/3, &n) })
	c, made := clusterAt(t, addr)
	for range 4 {
		_ = c.ForEachMaster(t.Context(), func(context.Context, *redis.Client) error { return nil }) // reads the map anew
	}
	if clients := made.Load(); clients != serversMax*2/3 {
		t.Errorf("%d clients, want those of the first map (%d)", clients, serversMax*2/3)
	}
	if _, err := c.MasterForKey(t.Context(), "k"); err != nil {
		t.Errorf("the map that was believed in is used on: %v", err)
	}
}

// A cluster whose servers move for years is believed in, as long as it is not thousands in a day.
func TestServersThatMove(t *testing.T) {
	var s servers
	now := time.Now()
	for day := range 1000 {
		for n := range 100 {
			s.add(now, fmt.Sprintf("10.%d.%d.%d:6379", day/256, day%256, n))
		}
		if s.full(now) {
			t.Fatalf("full on day %d", day)
		}
		now = now.Add(24 * time.Hour)
	}
	for n := range serversMax + 1 {
		s.add(now, fmt.Sprintf("h%d:1", n))
		s.add(now, "always:1")
	}
	if !s.full(now) || !s.full(now.Add(within-1)) || s.full(now.Add(within)) {
		t.Error("not full for the day")
	}
}
