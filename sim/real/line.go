package real

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

// loopback is the address on which everything listens, unless nodes run in containers.
var loopback = redisfixture.Loopback

const lineTimeout = 2 * time.Second

var lineNumber atomic.Uint64

// line connects a client, usually a node, to a server: a gate, and links of its own toxiproxy server, so that a hanging line harms no
// other. Safe for concurrent use.
type line struct {
	name     string
	upstream string
	up, down *direction // client to server, server to client
	short    func(error)

	effects // mu guards the fields below, too
	gate    *gate
	closed  bool
}

type effect struct {
	up, down network
	cut      bool
}

// newLine opens a line to upstream. seed and stream determine the delays. short is gate.short.
func newLine(name string, at netip.Addr, upstream string, seed, stream uint64, short func(error)) (*line, error) {
	l := &line{
		name: fmt.Sprintf("%s-%d", name, lineNumber.Add(1)), upstream: upstream, short: short,
		up: newDirection(seed, 2*stream), down: newDirection(seed, 2*stream+1),
	}
	l.update = l.suffer
	l.up.counted = true
	directions.Store(l.name+"-up", l.up)
	directions.Store(l.name+"-down", l.down)
	err := redisfixture.Listen(at, l.open)
	if err != nil {
		l.forget()
		return nil, fmt.Errorf("proxy of %s: %w", name, err)
	}
	return l, nil
}

func (l *line) open(addr string) error {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	toxics := toxiproxy.NewProxy(server, l.name, addr, l.upstream).Toxics
	for _, toxic := range []string{
		`{"name":"up","type":"leasestorm-wire","stream":"upstream","attributes":{"direction":"` + l.name + `-up"}}`,
		`{"name":"down","type":"leasestorm-wire","stream":"downstream","attributes":{"direction":"` + l.name + `-down"}}`,
	} {
		if _, err := toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return err
		}
	}
	var number atomic.Uint64
	join := func(client, upstream *entered) {
		n := strconv.FormatUint(number.Add(1), 10)
		toxics.StartLink(server, n+"upstream", client, upstream, stream.Upstream)
		toxics.StartLink(server, n+"downstream", upstream, client, stream.Downstream)
	}
	var err error
	l.gate, err = newGate(addr, l.upstream, join, l.short)
	return err
}

var errHung = errors.New("toxiproxy did not answer")

// within calls f in a goroutine of its own, and abandons it after lineTimeout.
func within(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTimer(lineTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errHung
	}
}

// suffer applies the sum of all effects. mu is held.
func (l *line) suffer(all effect) error {
	if l.closed {
		return nil
	}
	l.up.set(all.up)
	l.down.set(all.down)
	if all.cut {
		err := l.gate.close()
		l.up.lose()
		l.down.lose()
		return err
	}
	return l.gate.open()
}

// effects holds the effect of each fault on a line, by the fault's number. The order of faults does not change the sum.
type effects struct {
	mu     sync.Mutex
	of     map[int]effect
	update func(sum effect) error // called with mu held
}

func (all *effects) apply(n int, e effect) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of == nil {
		all.of = map[int]effect{}
	}
	all.of[n] = e
	return all.update(all.sum())
}

func (all *effects) heal(n int) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.of, n)
	return all.update(all.sum())
}

func (all *effects) sum() (sum effect) {
	for _, e := range all.of {
		sum = effect{up: sum.up.plus(e.up), down: sum.down.plus(e.down), cut: sum.cut || e.cut}
	}
	return sum
}

func (n network) plus(m network) network {
	n.hold = n.hold || m.hold
	n.fragments = n.fragments || m.fragments
	n.latency += m.latency
	n.jitter += m.jitter
	if n.rate == 0 || m.rate > 0 && m.rate < n.rate {
		n.rate = m.rate
	}
	return n
}

func (l *line) addr() string { return l.gate.listener.Addr().String() }

func (l *line) sent() int64 { return l.up.sent.Swap(0) }

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.gate.remove()
	l.up.lose()
	l.down.lose()
	l.forget()
}

func (l *line) forget() {
	directions.Delete(l.name + "-up")
	directions.Delete(l.name + "-down")
}
