package real

import (
	"errors"
	"time"

	toxics "github.com/Shopify/toxiproxy/v2/client"
)

// remote is a way through the toxiproxy of a composed fleet. It keeps one toxic in each direction and changes its settings, because
// adding one while a connection ends may crash toxiproxy 2.12. Closing the fleet resets its toxiproxy.
type remote struct {
	effects
	proxy *toxics.Proxy
}

var streams = []string{"upstream", "downstream"}

// newRemote adds the toxics to the proxy, which must have no connections.
func newRemote(p *toxics.Proxy) (*remote, error) {
	w := &remote{proxy: p}
	w.update = func(all effect) error { return within(func() error { return w.suffer(all) }) }
	for _, stream := range streams {
		if _, err := p.AddToxic(stream, "latency", stream, 1, network{}.latencyToxic()); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *remote) addr() string { return "" } // the fleet configures it itself
func (w *remote) sent() int64  { return 0 }
func (w *remote) close()       {}

func (w *remote) suffer(all effect) error {
	_, up := w.proxy.UpdateToxic(streams[0], 1, all.up.latencyToxic())
	_, down := w.proxy.UpdateToxic(streams[1], 1, all.down.latencyToxic())
	w.proxy.Enabled = !all.cut
	return errors.Join(up, down, w.proxy.Save())
}

// latencyToxic delays held bytes by more than any storm lasts; a later setting delivers them.
func (n network) latencyToxic() toxics.Attributes {
	latency := n.latency
	if n.hold {
		latency = 24 * time.Hour
	}
	return toxics.Attributes{"latency": latency.Milliseconds(), "jitter": n.jitter.Milliseconds()}
}
