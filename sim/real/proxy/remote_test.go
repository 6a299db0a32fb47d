// toxiproxy 2.12 writes a toxic that its own goroutines read: its server, which is a program of its own elsewhere, is in this process here.

//go:build !race

package proxy

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	toxics "github.com/Shopify/toxiproxy/v2/client"
	"github.com/rs/zerolog"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

// echoed reports whether what is said to addr comes back within the time.
func echoed(addr string, within time.Duration) bool {
	c, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(within))
	_, _ = c.Write([]byte("x"))
	_, err = io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// What faults do to a proxy of a toxiproxy elsewhere adds up, and is gone when they are.
func TestRemote(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = upstream.Close() })
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	api := ""
	err = redisfixture.Listen(redisfixture.Loopback, func(addr string) error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		api = addr
		return l.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Listen(api)
	}()
	t.Cleanup(func() {
		_ = server.Collection.Clear()
		_ = server.Shutdown()
		<-done
	})
	client := toxics.NewClient(api)
	var proxy *toxics.Proxy
	if err := redisfixture.Await(t.Context(), func(context.Context) bool {
		proxy, err = client.CreateProxy("node-1", "127.0.0.1:0", upstream.Addr().String())
		return err == nil
	}); err != nil {
		t.Fatal(err)
	}
	w, err := NewRemote(proxy)
	if err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	passes := func(want bool, within time.Duration) {
		t.Helper()
		if got := echoed(proxy.Listen, within); got != want {
			t.Errorf("it passes something on: %v, want %v", got, want)
		}
	}
	passes(true, 30*time.Second)
	do(w.Apply(1, Effect{Up: Network{Hold: true}}))
	passes(false, 200*time.Millisecond)
	do(w.Apply(2, Effect{Up: Network{Latency: time.Millisecond}, Down: Network{Latency: time.Millisecond, Jitter: time.Millisecond}}))
	passes(false, 200*time.Millisecond)
	do(w.Heal(1))
	passes(true, 30*time.Second)
	do(w.Apply(3, Effect{Cut: true}))
	do(w.Apply(4, Effect{Cut: true}))
	do(w.Heal(3))
	passes(false, 200*time.Millisecond)
	do(w.Heal(4))
	passes(true, 30*time.Second)
}
