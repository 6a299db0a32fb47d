package check

import "github.com/leasestorm/leasestorm/sim/history"

// grants holds trust windows against the grants that Redis shows. A window beyond its grant would overlap the next one.
type grants struct {
	g     *g1
	worst int64 // ns by which a window exceeded its grant
}

func (r *grants) event(e *history.Event) {
	if e.Kind == history.Acquired || e.Kind == history.Renewed {
		r.trusted(e)
	}
}

// trusted checks a window that a node reports. Redis' stream may show the grant or extension a moment later.
func (r *grants) trusted(e *history.Event) {
	s := r.g.w.subject
	l := s.granted
	if l == nil || !r.theirs(l, e) || l.until == 0 || e.Until <= l.until+int64(stampAllowance) {
		return
	}
	w, said := r.g.w, *e
	seen := w.seen()
	w.at(e.T+eventAllowance+w.stall(e.T-eventAllowance, e.T), func() {
		beyond := said.Until - l.until
		if s.granted != l || beyond <= int64(stampAllowance) {
			return
		}
		b := breach{session: s, from: said.T, to: said.Until, due: l.until, size: beyond, seen: seen, shown: true}
		b.terms = []*term{{session: s, inst: w.instance(said.Instance), fence: said.Fence}} // an overlap is a break of its own
		if r.g.breach(b, "%s said at %s that it trusts its lease of session %s%s until %s, but Redis had granted it until %s: another can "+
			"own it for %d ms while it still believes", w.instance(said.Instance).who(), clock(said.T), said.Session,
			inBrackets(said.Fence), clock(said.Until), clock(l.until), ms(beyond)) {
			r.worst = max(r.worst, beyond)
		}
	})
}

// theirs reports whether the lease is the instance's. A token belongs to the instance that reports acquired while Redis holds it.
func (r *grants) theirs(l *grant, e *history.Event) bool {
	if i := r.g.w.instances[l.holder]; i != nil && i.node != nil {
		return l.holder == e.Instance
	}
	if l.reporter == "" && e.Kind == history.Acquired && e.T < l.until {
		l.reporter = e.Instance
	}
	return l.reporter == e.Instance
}
