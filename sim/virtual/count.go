package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

// What the links witness of how much a node asks of Redis (G14): every command that a process sends, whether the network
// takes it, holds it back or refuses the connection. Neither the node nor its rules have a part in the counting.

// pageKeys is how many keys a SCAN, and a script that reads many, takes at a time.
const pageKeys = 1000

// commands is how many commands m is on a wire: one, with WAIT and the script behind it where acknowledgements count, but for a look, which
// is read in pieces. A client scans all keys for sessions and once more for heartbeats, of which a session has about three, and reads the
// sessions, their owners and the heartbeats.
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

// countAll tells what each process sent in the bucket that ends now.
func (w *world) countAll() {
	for _, n := range w.nodes {
		w.count(n)
	}
	w.q.push(event{at: w.t + w.bucket(), kind: evCount})
}

// count tells what the process of n has sent since it was told last.
func (w *world) count(n *node) {
	if n.link.sent > 0 {
		w.emit(history.Event{Kind: history.Commands, Node: n.name, N: n.link.sent})
		n.link.sent = 0
	}
}
