package check

import "github.com/leasestorm/leasestorm/sim/history"

// grants holds G1 against Redis, where it was watched: a window that reaches beyond what Redis granted is an overlap that
// only waits for its owner to fall silent.
type grants struct {
	g      *g1
	leases map[string]*grant
	worst  int64 // ns by which a window reached beyond
}

// grant is a lease as Redis holds it. It is known from a grant until the tap goes down or the key goes.
type grant struct {
	holder string
	until  int64
}

func (r *grants) event(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted:
		r.leases[e.Session] = &grant{e.Instance, e.Until}
	case history.RedisExtended:
		if l := r.leases[e.Session]; l != nil && l.until != 0 {
			l.until = max(l.until, e.Until)
		}
	case history.RedisDeleted:
		delete(r.leases, e.Session)
	case history.RedisFlushed, history.TapDown:
		clear(r.leases)
	case history.Acquired, history.Renewed:
		r.trusted(e)
	}
}

// trusted looks at a window that a node says it has. Redis' side of it may be told a moment later.
func (r *grants) trusted(e *history.Event) {
	l := r.leases[e.Session]
	if l == nil || l.holder != e.Instance || l.until == 0 || e.Until <= l.until+int64(stampAllowance) {
		return
	}
	w, said := r.g.w, *e
	w.at(e.T+wordAllowance+w.stall(e.T-wordAllowance, e.T), func() {
		beyond := said.Until - l.until
		if r.leases[said.Session] != l || beyond <= int64(stampAllowance) {
			return
		}
		r.worst = max(r.worst, beyond)
		r.g.broke(w.session(said.Session), "%s said at %s that it trusts its lease of session %s (fence %d) until %s, but Redis had "+
			"granted it until %s: another can own it for %d ms while it still believes", w.instance(said.Instance).who(), clock(said.T),
			said.Session, said.Fence, clock(said.Until), clock(l.until), ms(beyond))
	})
}
