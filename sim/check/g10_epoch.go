package check

import "github.com/leasestorm/leasestorm/sim/history"

// inQuarantine judges a new fence, which begins a term: none may begin in a quarantine. A known fence is of a term asserted anew.
func (g *g10) inQuarantine(k *key, e *history.Event) {
	first, _ := k.store.epoch.quarantine(g.w)
	if first > 0 && k.held() {
		g.changed(k.holder)
	}
	if e.Fence > max(k.fence, g.by(k.session, k.holder).fence) && e.T < first {
		g.broke(k.session, "at %s Redis began a term of session %s for %s (fence %d), although the epoch of its data began at %s or later: "+
			"nothing is granted within a TTL of that, because what it forgot may still be believed", clock(e.T), k.session.id,
			g.who(k.holder), e.Fence, clock(k.store.epoch.since))
	}
}

// unheard judges a script for an instance that has trusted its terms since before the present epoch. Such an instance has not heard of the
// epoch, because one that hears first reports that it does not trust its terms. No script may serve it.
func (g *g10) unheard(on *store, i *instance, ids ...string) {
	p, at := on.epoch, g.w.now
	if i == nil || i.asks || g.w.Foreign || p.until == never {
		return
	}
	began := p.until
	for _, id := range ids {
		t := i.held[id]
		if t == nil || !t.believes || t.from >= p.since {
			continue
		}
		from := t.from
		g.w.at(at+min(g.w.blur(), clockStep), func() {
			if t.believes && t.from == from {
				g.broke(t.session, "at %s Redis executed a script of %s, which trusts session %s (fence %d) since before the epoch of Redis' "+
					"data began (%s) and cannot have heard of that: it compared no epochs", clock(at), i.who(), id, t.fence, clock(began))
			}
		})
		return
	}
}

// asserting reports whether a grant over another's lease may be an assertion in a quarantine. It may replace a lower fence, which too few
// replicas may have acknowledged. Its own fence follows.
func (g *g10) asserting(on *store) bool {
	_, last := on.epoch.quarantine(g.w)
	return g.w.replicated() && on.epoch.since != 0 && g.w.now <= last
}
