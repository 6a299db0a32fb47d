package check

import "github.com/leasestorm/leasestorm/sim/history"

// used matches an extension to one of the holder's renewals. An extension without one is a break. A node reports a renewal before it
// sends it, and the report may be recorded a moment after the effect.
func (g *g10) used(k *key, at int64) {
	i := g.w.instances[k.holder]
	if i == nil || !i.sends || i.asks {
		return
	}
	s := k.by(k.holder)
	s.shown++
	if s.unused--; s.unused >= 0 {
		return
	}
	nth := s.shown
	g.w.at(at+eventAllowance+int64(g.w.RenewTimeout)+g.w.stall(at-eventAllowance, at), func() {
		if s.unused+(s.shown-nth) >= 0 { // later extensions use later renewals
			return
		}
		s.unused++
		if i.gone && i.killed { // its last events were lost
			return
		}
		g.broke(k.session, "at %s somebody extended the lease of %s once more than its owner had asked for (session %s): whoever extends a "+
			"lease must compare its owner first%s", clock(at), i.who(), k.session.id, g.extender(k.others(i.id), at))
	})
}

// refused counts a refused acquisition as a possible extension: a script that Redis refuses halfway may have extended an adopted lease
// without setting a fence. Redis may execute the attempt after the report.
func (g *g10) refused(e *history.Event) {
	for _, x := range g.stores.all {
		if k := x.key(g.w.subject); k.holder == e.Instance {
			s := k.by(e.Instance)
			s.unused++
			s.open = max(s.open, e.T)
			return
		}
	}
}

// answered handles the answer to a renewal. If it was the only one in flight, Redis has none left to execute. Its effect may not be shown
// yet, and earlier attempts may still be delayed.
func (g *g10) answered(k *key, s *said, sent int64) {
	if sent == 0 || s.waits != sent || s.unused <= 0 ||
		s.before != 0 && g.w.now <= s.before+g.w.blur()+g.w.stall(s.before, g.w.now) || s.open != 0 && sent < g.underWay(s.inst, s.open) {
		return
	}
	s.unused = 1
	if k.holder == s.inst && k.pushed >= sent-clockStep {
		s.unused = 0
	}
}

// underWay returns until when Redis may execute an unanswered request. A kernel retransmits with pauses that double, so the request may
// arrive as long after a fault as the fault lasted.
func (g *g10) underWay(inst string, sent int64) int64 {
	until, late := sent+2*int64(g.w.TTL), g.w.blur()
	if late == 0 {
		return until
	}
	for inj, r := range g.w.reaching(sent, nil, g.w.reach) {
		if r.from > until {
			break
		}
		if inj.ofRedis() || inj.node == g.w.instance(inst).node {
			until = max(until, r.to+(r.to-r.from)+late)
		}
	}
	return until
}

// reaches checks that an extension gives a lease no more than a TTL, by a clock that may be off by the margin.
func (g *g10) reaches(k *key, e *history.Event) {
	if e.Until == 0 {
		g.endless(k, e.T)
		return
	}
	beyond := e.Until - e.T - int64(g.w.TTL)
	if beyond <= g.w.margin()+clockStep {
		return
	}
	g.broke(k.session, "at %s the lease of session %s was made to last until %s, %d ms more than a TTL", clock(e.T), k.session.id,
		clock(e.Until), ms(beyond))
}

// endless checks that a lease has an end, because an endless one outlives its owner. A node may set the end with its next command.
func (g *g10) endless(k *key, at int64) {
	since := k.since
	g.w.at(at+eventAllowance+g.w.stall(at-eventAllowance, at), func() {
		if !k.store.tap || !k.known || k.holder == "" || k.since != since || k.until != 0 {
			return
		}
		g.broke(k.session, "at %s the lease of session %s was made to last for ever: it has no end", clock(at), k.session.id)
	})
}

// faulty reports whether a fault keeps the instance from reporting its actions.
func (g *g10) faulty(inst string, at int64) bool {
	i := g.w.instances[inst]
	if i == nil || i.node == nil || i.gone && i.killed {
		return true
	}
	for _, inj := range g.w.since(at - int64(g.w.TTL)) {
		if r, ok := g.w.reach(inj); ok && (inj.node == i.node || inj.ofRedis()) && r.from <= at+eventAllowance &&
			r.to >= at-int64(g.w.TTL) {
			return true
		}
	}
	return false
}

// anothers judges a renewal of a lease that Redis shows with another holder, once the stream must have shown a grant in between.
func (g *g10) anothers(k *key, e *history.Event) {
	inst, at, fence, holder, since := e.Instance, e.T, e.Fence, k.holder, k.since
	g.w.at(at+g.w.blur()+g.w.stall(at-eventAllowance, at), func() {
		if k.by(inst).granted >= at || k.holder == inst || !k.store.tap || !k.known {
			return
		}
		g.broke(k.session, "%s says that it renewed its lease of session %s at %s%s, but Redis shows it with %s since %s",
			g.who(inst), k.session.id, clock(at), inBrackets(fence), g.who(holder), clock(since))
	})
}

// nothing judges a renewal of a key that was gone before the renewal was sent, if the node reports when it sends. A grant in between may
// not be shown yet.
func (g *g10) nothing(k *key, e *history.Event) {
	inst, at, fence, since := e.Instance, e.T, e.Fence, k.since
	g.w.at(at+eventAllowance+g.w.stall(at-eventAllowance, at), func() {
		if !k.store.tap || !k.known || k.holder != "" || k.since != since {
			return
		}
		g.broke(k.session, "%s says that it renewed its lease of session %s at %s%s, but Redis shows that nobody holds it "+
			"since %s", g.who(inst), k.session.id, clock(at), inBrackets(fence), clock(since))
	})
}

// claimed checks an acquisition that a node reports: Redis must have granted it.
func (g *g10) claimed(k *key, e *history.Event) {
	inst, at, fence := e.Instance, e.T, e.Fence
	if !k.store.tap || !k.known || k.holder == inst {
		return
	}
	g.w.at(at+eventAllowance+g.w.stall(at-eventAllowance, at), func() {
		if !k.store.tap || !k.known || k.holder == inst || k.by(inst).granted >= at-int64(g.w.TTL) && k.by(inst).granted > 0 {
			return
		}
		if k.session.deletedWithin(at-eventAllowance, at+eventAllowance) { // the key was deleted while Redis answered its owner
			return
		}
		if g.stranger(k, at) {
			return
		}
		holder := "nobody"
		if k.holder != "" {
			holder = g.who(k.holder)
		}
		g.broke(k.session, "%s says that it acquired session %s at %s%s, but Redis shows that lease with %s", g.who(inst),
			k.session.id, clock(at), inBrackets(fence), holder)
	})
}

// stranger reports whether a foreign node's key holds no instance's ID, or held none when the node reported acquired.
func (g *g10) stranger(k *key, at int64) bool {
	return g.w.Foreign && (k.holder != "" && g.nobody(k.holder) || k.holder == "" && k.went >= at-eventAllowance && g.nobody(k.was))
}
