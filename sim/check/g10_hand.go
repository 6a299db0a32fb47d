package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// byHand reports whether the grant is an operator's, who is no instance: it takes a lease from its owner for nobody. The key ends when
// it would have, so that nobody is given it before the owner's last window has closed, and its fence follows.
func (g *g10) byHand(k *key, e *history.Event) bool {
	return k.known && k.holder != "" && e.Reason != snapshotReason && g.nobody(e.Instance) && e.Until != 0 && e.Until == k.end
}

// raised: an operator's hand gives the lease a fence above its owner's, who could assert its term again after a loss of data otherwise.
// That it gives any is held as of every grant.
func (g *g10) raised(k *key, e *history.Event) {
	if k.hand && e.Fence <= k.fence {
		g.broke(k.session, "at %s %s took the lease of session %s by hand and set its fence to %d, which is not above %d", clock(e.T),
			g.who(k.holder), k.session.id, e.Fence, k.fence)
	}
	k.hand = false
}

// unread: who wrote an instance's lease before its end by a command that does not show what it did to it is not known, nor whether it
// compared the owner: nothing passes then.
func (g *g10) unread(k *key, e *history.Event) {
	if g.without == "" && g.w.shows() && k.known && k.holder != "" && !g.nobody(k.holder) && k.lives(e.T) {
		g.without = fmt.Sprintf("at %s the lease of session %s, which %s held, was changed by a command that does not show what it did to "+
			"it: it is not known who may do that", clock(e.T), k.session.id, g.who(k.holder))
	}
}
