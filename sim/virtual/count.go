package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// The links count the commands that a process sends (G14), including those that the network holds back or refuses.

// pageKeys is the page size of SCAN and of a script that reads many keys.
const pageKeys = 1000

// commands returns the number of commands that m sends: one, WAIT if acknowledgements count, and a second read of the epoch after an
// acquisition. A discovery scans about three keys a session for sessions and again for heartbeats, then reads both and the owners.
func (w *world) commands(m *message) int64 {
	switch {
	case m.cmd != nil:
		return 1
	case m.op.Probes():
		return 3
	case m.op.Confirm > 0:
		return 2
	case m.op.Kind != core.OpLook:
		return 1
	}
	pages := func(keys int) int64 { return int64(1 + keys/pageKeys) }
	sessions, nodes := len(w.sess), len(w.nodes)
	return 2*pages(3*sessions+nodes) + 2*pages(sessions) + pages(nodes)
}

func (w *world) bucket() int64 { return int64(history.Bucket(w.cfg.Renew)) }

func (w *world) countAll() {
	for _, n := range w.nodes {
		w.count(n)
	}
	w.q.Push(loop.Event{At: w.t + w.bucket(), Kind: evCount})
}

func (w *world) count(n *node) {
	if n.link.sent > 0 {
		w.emit(history.Event{Kind: history.Commands, Node: n.name, N: n.link.sent})
		n.link.sent = 0
	}
}
