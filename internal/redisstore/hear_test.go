package redisstore

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// hearers returns stores on every kind of client, none of which limits messages itself.
func hearers(t *testing.T, server *redistest.Server) map[string]*Store {
	t.Helper()
	opt := Options{LeasePrefix: "{p}l:", NodePrefix: "{p}n:", EpochKey: "{p}e", OpTimeout: 20 * time.Second}
	full := opt.withDefaults()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Addr())
	}
	stores := map[string]*Store{}
	for name, client := range map[string]redis.UniversalClient{
		"one server":      redis.NewClient(&redis.Options{Addr: server.Addr()}),
		"behind Sentinel": newMasterClient(single(&redis.Options{Addr: failoverAddr}, &full), dial, &full),
		"a cluster":       redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}}),
	} {
		s, err := New(client, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = s.Close(), client.Close() })
		stores[name] = s
	}
	return stores
}

// publisher may only publish, and needs no memory of this process.
type publisher struct{ net.Conn }

func (p publisher) say(t *testing.T, channel string, text []byte) {
	t.Helper()
	if _, err := fmt.Fprintf(p, "*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%d\r\n", len(channel), channel, len(text)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(append(text[:len(text):len(text)+2], "\r\n"...)); err != nil {
		t.Fatal(err)
	}
	var reply [16]byte
	if n, err := p.Read(reply[:]); err != nil || reply[0] != ':' {
		t.Fatalf("%q, %v", reply[:n], err)
	}
}

// A client with publish rights can neither exhaust an instance's memory nor interrupt its subscription. An instance drops a message that is
// longer than any notice while it arrives.
func TestLongMessagesTakeNoMemory(t *testing.T) {
	const size, times = 28_000_000, 2
	server := redistest.Start(t, redistest.Cluster())
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := publisher{conn}
	text, notice := []byte(strings.Repeat("x", size) + "\r\n")[:size], []byte("joined somebody\r\n")
	notice = notice[:len(notice)-2]
	for name, s := range hearers(t, server) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ups, heard, ended := make(chan error, 100), make(chan core.Notice, 100), make(chan struct{})
			go func() {
				defer close(ended)
				s.Subscribe(ctx, time.Second, func(n core.Notice) { heard <- n }, func(err error) { ups <- err })
			}()
			defer func() { cancel(); <-ended }()
			if err := <-ups; err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				for _, said := range [][]byte{text, notice} {
					p.say(t, s.wire.opt.Channel, said)
				}
				select {
				case n := <-heard:
					if n.From != "somebody" {
						t.Fatalf("heard %+v", n)
					}
				case err := <-ups:
					t.Fatalf("the channel is not heard any more: %v", err)
				}
			}
			runtime.ReadMemStats(&after)
			took := (after.TotalAlloc - before.TotalAlloc) / times
			t.Logf("%d bytes for a message of %d", took, size)
			if took > 1<<20 {
				t.Errorf("%d bytes are taken for a message of %d", took, size)
			}
		})
	}
}
