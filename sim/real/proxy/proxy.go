// Package proxy connects nodes to Redis servers, and Redis servers to each other, through toxiproxy, and disturbs their connections.
package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/rs/zerolog"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

const timeout = 2 * time.Second

// Proxy connects a client, usually a node, to a server. It has a listener and a toxiproxy server of its own, so that a hanging
// proxy does not affect the others. Safe for concurrent use.
type Proxy struct {
	up, down *direction // client to server, server to client

	effects  // mu guards the fields below, too
	listener *listener
	closed   bool
}

// Effect is what faults do to a proxy; cut resets connections and refuses new ones.
type Effect struct {
	Up, Down Network
	Cut      bool
}

// New opens a proxy to upstream. seed and stream determine the delays. When files, ports or connections run out, New calls short
// with a host.ErrNoVerdict. short must not block.
func New(name string, at netip.Addr, upstream string, seed, stream uint64, short func(error)) (*Proxy, error) {
	l := &Proxy{up: newDirection(seed, 2*stream), down: newDirection(seed, 2*stream+1)}
	l.update = l.disturb
	l.up.counted = true
	err := redisfixture.Listen(at, func(addr string) error { return l.open(name, addr, upstream, short) })
	if err != nil {
		return nil, fmt.Errorf("proxy of %s: %w", name, err)
	}
	return l, nil
}

func (l *Proxy) open(name, addr, upstream string, short func(error)) error {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	toxics := toxiproxy.NewProxy(server, name, addr, upstream).Toxics
	for way, dir := range map[string]*direction{"upstream": l.up, "downstream": l.down} {
		added, err := toxics.AddToxicJson(strings.NewReader(`{"type":"leasestorm-wire","stream":"` + way + `","attributes":{}}`))
		if err != nil {
			return err
		}
		added.Toxic.(*toxic).dir = dir // no connection uses the toxic yet
	}
	var number atomic.Uint64
	join := func(client, upstream *conn) {
		n := strconv.FormatUint(number.Add(1), 10)
		toxics.StartLink(server, n+"upstream", client, upstream, stream.Upstream)
		toxics.StartLink(server, n+"downstream", upstream, client, stream.Downstream)
	}
	var err error
	l.listener, err = listen(addr, upstream, join, short)
	return err
}

var errHung = errors.New("toxiproxy did not answer")

// Within calls f in a goroutine of its own, and abandons it after timeout.
func Within(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errHung
	}
}

// disturb applies the sum of all effects. mu is held.
func (l *Proxy) disturb(all Effect) error {
	if l.closed {
		return nil
	}
	l.up.set(all.Up)
	l.down.set(all.Down)
	if all.Cut {
		err := l.listener.close()
		l.up.lose()
		l.down.lose()
		return err
	}
	return l.listener.open()
}

// effects holds the effect of each fault on a proxy, by the fault's number. The order of faults does not change the sum.
type effects struct {
	mu     sync.Mutex
	of     map[int]Effect
	update func(sum Effect) error // called with mu held
}

// Apply adds the effect of a fault, by its number.
func (all *effects) Apply(n int, e Effect) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of == nil {
		all.of = map[int]Effect{}
	}
	all.of[n] = e
	return all.update(all.sum())
}

// Heal removes the effect of a fault.
func (all *effects) Heal(n int) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.of, n)
	return all.update(all.sum())
}

func (all *effects) sum() (sum Effect) {
	for _, e := range all.of {
		sum = Effect{Up: sum.Up.plus(e.Up), Down: sum.Down.plus(e.Down), Cut: sum.Cut || e.Cut}
	}
	return sum
}

func (n Network) plus(m Network) Network {
	n.Hold = n.Hold || m.Hold
	n.Fragments = n.Fragments || m.Fragments
	n.Latency += m.Latency
	n.Jitter += m.Jitter
	if n.Rate == 0 || m.Rate > 0 && m.Rate < n.Rate {
		n.Rate = m.Rate
	}
	return n
}

// Addr returns the address at which the proxy listens.
func (l *Proxy) Addr() string { return l.listener.listener.Addr().String() }

// Sent returns the number of commands from the client since the last call.
func (l *Proxy) Sent() int64 { return l.up.sent.Swap(0) }

// Close ends the proxy, its connections included.
func (l *Proxy) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.listener.remove()
	l.up.lose()
	l.down.lose()
}
