package check

import "github.com/leasestorm/leasestorm/sim/history"

// used matches an extension to one of the holder's renewals. One that nobody sent is a break. The event of a renewal comes before it is
// sent, and may be recorded a moment after its effect.
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
		if s.unused+(s.shown-nth) >= 0 { // those that came after it take theirs from later events
			return
		}
		s.unused++
		if i.gone && i.killed { // its last events went with it
			return
		}
		g.broke(k.session, "at %s somebody extended the lease of %s once more than its owner had asked for (session %s): whoever extends a "+
			"lease must compare its owner first%s", clock(at), i.who(), k.session.id, g.extender(k.others(i.id), at))
	})
}

// refused: an adoption extends a lease too, and a script that Redis refuses half way has done so without a fence, at whichever server has
// the lease as the instance's. It is reported when its time is over, and may be executed later.
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

// answered: an answer to the only renewal under way leaves none that Redis is still to execute. Effects may still be to be shown, and
// what was sent before may be under way for as long as messages are kept back.
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

// underWay returns until when Redis may execute what an instance sent without an answer. A kernel sends again after pauses that double, so
// it may come when the fault has been over for as long as it lasted.
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

// reaches: no script gives a lease more than a TTL, by a clock that may run fast or slow by the margin.
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

// endless: a lease without an end outlives its owner. A node that sets the end with its next command is given time for that.
func (g *g10) endless(k *key, at int64) {
	since := k.since
	g.w.at(at+eventAllowance+g.w.stall(at-eventAllowance, at), func() {
		if !k.store.tap || !k.known || k.holder == "" || k.since != since || k.until != 0 {
			return
		}
		g.broke(k.session, "at %s the lease of session %s was made to last for ever: it has no end", clock(at), k.session.id)
	})
}
