package real

import (
	"net/netip"
	"strings"

	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// Store is a TCP service besides Redis, in which nodes keep their leases.
type Store struct {
	Name    string   // letters, digits and _
	Addr    string   // host:port, if it runs already
	Command []string // starts it otherwise: it serves port $PORT of 127.0.0.1, with its data in the folder $DATA
}

// storeLines are a node's connection to Redis, the first, and its proxies to stores.
type storeLines struct {
	lines
	env []string // names the proxies to the node
}

// withStores adds a proxy for each store of the run. It closes the connection on an error.
func withStores(c connection, s *slot, at netip.Addr, stream uint64) (connection, error) {
	w := &storeLines{lines: lines{c}}
	for _, store := range s.run.cfg.Stores {
		l, err := proxy.New(s.name, at, store.Addr, s.run.cfg.Seed, stream, s.run.abort)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.lines = append(w.lines, l)
		w.env = append(w.env, "LEASESTORM_PROXY_"+strings.ToUpper(store.Name)+"="+l.Addr())
	}
	return w, nil
}

func (w *storeLines) Sent() int64 { return w.lines[0].Sent() }
