package container_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/container"
)

// said waits until the program has said that, after all it had said before.
func (h *heard) said(t *testing.T, what string) {
	t.Helper()
	eventually(t, "it never said "+what+" but "+h.String(), func() bool {
		lines := strings.Split(strings.TrimSpace(h.String()), "\n")
		return strings.Contains(lines[len(lines)-1], what)
	})
}

// Programs come and go at a host; its address and what is blocked of it stay. Hosts are cut from each other in pairs, and in each
// direction alone.
func TestFirewall(t *testing.T) {
	_, n, image := network(t)
	peer, _ := start(t, n, container.Spec{Image: image}, "echo")
	host, _ := start(t, n, container.Spec{Image: image}, "echo")
	other, _ := start(t, n, container.Spec{Image: image}, "echo")
	at := netip.AddrPortFrom(peer.Address(), 7)
	caller := func(peer netip.AddrPort) (*container.Container, *heard) {
		return start(t, n, container.Spec{
			Image: image, Host: host, Env: map[string]string{"CONTAINER_TEST_PEER": peer.String()},
		}, "call")
	}
	c, log := caller(at)
	log.said(t, "answered")
	_, beside := caller(netip.AddrPortFrom(other.Address(), 7))
	beside.said(t, "answered")
	f, err := host.Firewall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	set := func(blocks ...container.Block) {
		t.Helper()
		if err := f.Set(blocks...); err != nil {
			t.Fatal(err)
		}
	}
	everywhere := netip.AddrPortFrom(peer.Address(), 0)
	for name, tt := range map[string]struct {
		block container.Block
		says  string
	}{
		"what it sends is lost":       {container.Block{Peer: at, Out: true}, "timeout"},
		"what it is sent is lost":     {container.Block{Peer: at, In: true}, "timeout"},
		"both":                        {container.Block{Peer: everywhere, Out: true, In: true}, "timeout"},
		"it is refused":               {container.Block{Peer: at, Out: true, In: true, Reset: true}, "dial: connect: connection refused"},
		"it is refused at every port": {container.Block{Peer: everywhere, Out: true, Reset: true}, "dial: connect: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			set(tt.block)
			log.said(t, tt.says)
			set()
			log.said(t, "answered")
		})
	}
	t.Run("another port and another peer are not blocked", func(t *testing.T) {
		set(container.Block{Peer: netip.AddrPortFrom(at.Addr(), 8), Out: true, In: true})
		c, log := caller(at)
		log.said(t, "answered")
		if err := c.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a restart does not heal it", func(t *testing.T) {
		set(container.Block{Peer: at, In: true})
		log.said(t, "timeout")
		if err := c.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, log := caller(at)
		log.said(t, "timeout")
		set()
		log.said(t, "answered")
	})
	if text := beside.String(); text != "answered\n" {
		t.Errorf("what was blocked between two hosts, a third felt: %s", text)
	}
}
