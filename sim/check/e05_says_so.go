package check

import "github.com/leasestorm/leasestorm/sim/history"

// e5 judges that a leader that cannot renew reports its loss before another instance can own its lease. When the key expires or
// goes to another instance, the holder's last event must not be that it leads. G4 judges that the former leader writes nothing
// more.
type e5 struct {
	g4
	gap int64 // last time at which the view of Redis may be incomplete
}

func (g *e5) attach(w *world, v Verdict) {
	g.g4.attach(w, v)
	if !w.shows() {
		g.note("whether leaders say in time that they lead no more is not judged: it is unknown which of Redis' grants count")
	}
}

func (g *e5) event(e *history.Event) {
	g.g4.event(e)
	if g.w.replicated() {
		return
	}
	switch e.Kind {
	case history.RedisFlushed, history.TapDown:
		g.gap = e.T
	case history.RedisGranted, history.RedisDeleted:
		k := g.w.subject.before
		if k == nil || k.passed || k.since <= g.gap || e.Kind == history.RedisDeleted && e.T < k.until-expirySlack {
			return
		}
		k.passed = true
		switch {
		case e.Kind == history.RedisDeleted && k.until != 0 && len(g.w.faults.quarantines(e.T)) == 0:
			g.passes(k, e, "expired")
		case e.Kind == history.RedisGranted && k.holder != e.Instance && e.Instance != "" && e.Reason != snapshotReason:
			g.passes(k, e, "went to "+g.w.fleet.who(e.Instance))
		}
	}
}

// passes judges the messages of the former holder of a lease. Events are stamped a moment after the fact.
func (g *e5) passes(k *grant, e *history.Event, what string) {
	s, inst, at := g.w.subject, g.w.fleet.instance(k.holder), e.T
	if inst.gone || inst.node == nil || s.deletedWithin(at-int64(g.w.TTL), at) {
		return
	}
	g.exercise("")
	t := s.heldBy(inst)
	if t == nil || t.doubt {
		return
	}
	since := t.confirmedAt
	g.w.at(g.w.host.stampedBy(at)+g.w.host.stall(at-eventAllowance, at), func() {
		if t.over || t.doubt || t.confirmedAt != since || inst.gone || g.w.fleet.woke(inst.node, at) {
			return
		}
		g.broke(s, "at %s the leader key %s %s, and %s, who held it, had last said at %s that it leads, and nothing since", clock(at),
			s.id, what, inst.who(), clock(since))
	})
}
