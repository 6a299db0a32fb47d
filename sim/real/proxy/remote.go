package proxy

import (
	"errors"
	"time"

	toxics "github.com/Shopify/toxiproxy/v2/client"
)

// Remote is a proxy of the toxiproxy of a composed fleet. It keeps one toxic in each direction and changes its settings, because
// adding one while a connection ends may crash toxiproxy 2.12. Closing the fleet resets its toxiproxy.
type Remote struct {
	effects
	proxy *toxics.Proxy
}

var streams = []string{"upstream", "downstream"}

// NewRemote adds the toxics to the proxy, which must have no connections.
func NewRemote(p *toxics.Proxy) (*Remote, error) {
	w := &Remote{proxy: p}
	w.update = func(all Effect) error { return Within(func() error { return w.disturb(all) }) }
	for _, stream := range streams {
		if _, err := p.AddToxic(stream, "latency", stream, 1, Network{}.latencyToxic()); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Addr returns "": the fleet configures it itself.
func (w *Remote) Addr() string { return "" }

// Sent returns 0: the commands are not known.
func (w *Remote) Sent() int64 { return 0 }

// Close does nothing.
func (w *Remote) Close() {}

func (w *Remote) disturb(all Effect) error {
	_, up := w.proxy.UpdateToxic(streams[0], 1, all.Up.latencyToxic())
	_, down := w.proxy.UpdateToxic(streams[1], 1, all.Down.latencyToxic())
	w.proxy.Enabled = !all.Cut
	return errors.Join(up, down, w.proxy.Save())
}

// latencyToxic delays held bytes by more than any storm lasts; a later setting delivers them.
func (n Network) latencyToxic() toxics.Attributes {
	latency := n.Latency
	if n.Hold {
		latency = 24 * time.Hour
	}
	return toxics.Attributes{"latency": latency.Milliseconds(), "jitter": n.Jitter.Milliseconds()}
}
