package check

import "github.com/leasestorm/leasestorm/sim/history"

// inQuarantine judges a new fence, which begins a term: none may begin in a quarantine. A known fence is of a term asserted anew.
func (g *g10) inQuarantine(k *key, e *history.Event) {
	first, _ := k.store.epoch.quarantine(g.w)
	if first > 0 && k.known && k.holder != "" {
		g.changes[k.holder]++
	}
	if e.Fence > max(k.fence, k.session.key.reportedFence) && e.T < first {
		g.broke(k.session, "at %s Redis began a term of session %s for %s (fence %d), although the epoch of its data began at %s or later: "+
			"nothing is granted within a TTL of that, because what it forgot may still be believed", clock(e.T), k.session.id,
			g.who(k.holder), e.Fence, clock(k.store.epoch.since))
	}
}

// unheard judges a script for an instance that has trusted its term since before the present epoch. Such an instance has not heard of the
// epoch, because one that hears first reports that it does not trust the term. No script may serve it.
func (g *g10) unheard(k *key, inst string) {
	if i := g.w.instances[inst]; i != nil {
		g.deaf(k.store, k.session.heldBy(i))
	}
}

// beat judges a heartbeat in the same respect.
func (g *g10) beat(i *instance) {
	x := g.stores.now
	if e := x.epoch; e.until == never || g.w.now > e.until+int64(g.w.TTL) {
		return
	}
	for _, id := range g.w.leases(i) {
		if g.deaf(x, i.held[id]) {
			return
		}
	}
}

// deaf judges a script executed for the term's owner. It reports whether that owner cannot have heard of the epoch.
func (g *g10) deaf(x *store, t *term) bool {
	p, at := x.epoch, g.w.now
	if t == nil || p.until == never || g.w.Foreign || t.inst.asks || !t.believes || t.believesSince() >= p.since {
		return false
	}
	began, from := p.until, t.believesSince()
	g.w.at(at+min(g.w.blur(), clockStep), func() {
		if !t.believes || t.believesSince() != from {
			return
		}
		g.broke(t.session, "at %s Redis executed a script of %s, which trusts session %s (fence %d) since before the epoch of Redis' data "+
			"began (%s) and cannot have heard of that: it compared no epochs", clock(at), t.inst.who(), t.session.id, t.fence, clock(began))
	})
	return true
}
