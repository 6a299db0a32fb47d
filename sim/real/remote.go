package real

import (
	"errors"
	"sync"
	"time"

	toxics "github.com/Shopify/toxiproxy/v2/client"
)

// remote is a way through a toxiproxy that somebody else runs. It has one toxic in each direction, which stays and is set otherwise: one
// that is added while a connection ends may bring toxiproxy 2.12 down.
type remote struct {
	mu     sync.Mutex
	proxy  *toxics.Proxy
	effect effects
}

// streams are the directions, as toxiproxy calls them.
var streams = []string{"upstream", "downstream"}

// newRemote opens the way. Nobody may be on it.
func newRemote(p *toxics.Proxy) (*remote, error) {
	for _, stream := range streams {
		if _, err := p.AddToxic(stream, "latency", stream, 1, network{}.latencyToxic()); err != nil {
			return nil, err
		}
	}
	return &remote{proxy: p, effect: effects{}}, nil
}

func (w *remote) addr() string { return "" } // the fleet has it
func (w *remote) sent() int64  { return 0 }  // nobody counts there

func (w *remote) apply(fault int, e effect) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effect[fault] = e
	return within(w.update)
}

func (w *remote) heal(fault int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.effect, fault)
	return within(w.update)
}

// close leaves the proxy as it was.
func (w *remote) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.effect)
	_ = within(func() error {
		return errors.Join(w.update(), w.proxy.RemoveToxic(streams[0]), w.proxy.RemoveToxic(streams[1]))
	})
}

// update brings the proxy to the sum of its effects. mu is held.
func (w *remote) update() error {
	var err error
	all := w.effect.sum()
	for i, n := range []network{all.up, all.down} {
		_, failed := w.proxy.UpdateToxic(streams[i], 1, n.latencyToxic())
		err = errors.Join(err, failed)
	}
	if w.proxy.Enabled == all.cut {
		w.proxy.Enabled = !all.cut
		err = errors.Join(err, w.proxy.Save())
	}
	return err
}

// latencyToxic is what delays bytes so. What is held is delayed by more than any storm lasts, and delivered when that is set otherwise.
func (n network) latencyToxic() toxics.Attributes {
	latency := n.latency
	if n.hold {
		latency = 24 * time.Hour
	}
	return toxics.Attributes{"latency": latency.Milliseconds(), "jitter": n.jitter.Milliseconds()}
}
