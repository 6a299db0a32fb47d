package real

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// Store is a TCP service besides Redis, in which nodes keep their leases.
type Store struct {
	Name string // letters, digits and _
	Addr string // host:port
}

// storeLines are a node's connection to Redis and its proxies to stores. A network fault of the node applies to all of them.
type storeLines struct {
	connection
	env    []string // names the proxies to the node
	stores []*proxy.Proxy
}

// withStores adds a proxy for each store of the run. It closes the connection on an error.
func withStores(c connection, s *slot, at netip.Addr, stream uint64) (connection, error) {
	w := &storeLines{connection: c}
	for _, store := range s.run.cfg.Stores {
		l, err := proxy.New(s.name, at, store.Addr, s.run.cfg.Seed, stream, s.run.abort)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.stores = append(w.stores, l)
		w.env = append(w.env, "LEASESTORM_PROXY_"+strings.ToUpper(store.Name)+"="+l.Addr())
	}
	return w, nil
}

func (w *storeLines) Apply(fault int, e proxy.Effect) error {
	err := w.connection.Apply(fault, e)
	for _, l := range w.stores {
		err = errors.Join(err, l.Apply(fault, e))
	}
	return err
}

func (w *storeLines) Heal(fault int) error {
	err := w.connection.Heal(fault)
	for _, l := range w.stores {
		err = errors.Join(err, l.Heal(fault))
	}
	return err
}

func (w *storeLines) Close() {
	w.connection.Close()
	for _, l := range w.stores {
		l.Close()
	}
}
