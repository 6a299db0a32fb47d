package respguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// serveCluster is a server of a cluster that says what slots returns of its map, and nothing good of anything else.
func serveCluster(t *testing.T, slots func(host, port string) string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	all := slots(host, port)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					words, err := command(in)
					if err != nil {
						return
					}
					reply := "-ERR no: " + strings.Join(words, " ") + " of who has " + secret + "\r\n"
					switch words[0] {
					case "cluster":
						reply = all
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
