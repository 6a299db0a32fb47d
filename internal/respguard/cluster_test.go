package respguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// serveCluster is a server of a cluster that says what slots returns of its map, and nothing good of anything else.
func serveCluster(t *testing.T, slots func(host, port string) string) (addr string) {
	return serveWords(t, slots, func(words []string) string { return "ERR no: " + strings.Join(words, " ") + " of who has " + secret })
}

// serveWords is serveCluster with what it says of all else. Both are asked each time.
func serveWords(t *testing.T, slots func(host, port string) string, says func(words []string) string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					words, err := command(in)
					if err != nil {
						return
					}
					reply := "-" + says(words) + "\r\n"
					switch words[0] {
					case "cluster":
						reply = slots(host, port)
					case "auth":
						reply = "+OK\r\n"
					}
					if _, err := io.WriteString(c, reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// command reads one.
func command(in *bufio.Reader) (words []string, err error) {
	var n int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		var size int
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
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

// Map after map, each of other servers, is no more than one of all.
func TestMapsOfTooManyServers(t *testing.T) {
	var n atomic.Int64
	addr := serveCluster(t, func(host, port string) string {
		const others = serversMax*2/3 - 1
		text := fmt.Sprintf("*1\r\n*%d\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", 3+others, len(host), host, port)
		for range others {
			at := n.Add(1)
			name := fmt.Sprintf("10.0.%d.%d", at/256, at%256)
			text += fmt.Sprintf("*2\r\n$%d\r\n%s\r\n:1\r\n", len(name), name)
		}
		return text
	})
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
