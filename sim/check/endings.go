package check

import (
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// endings judges two rules: a term ends with exactly one lost or released, and its reason agrees with Redis. Instances that query Redis
// before each use have no terms to lose. Another program may report less.
type endings struct {
	hooks
	over *term // term that the current event ended
	gap  int64 // last time at which the view of Redis may be incomplete
}

// ended is called for each end of a term, before the event that caused it.
func (x *endings) ended(t *term, how ending) {
	switch how {
	case endLost, endReleased:
		x.over = t
	case endReplaced:
		if !t.inst.asks && !x.w.Foreign {
			x.broke(t.session, "%s began a new term of session %s at %s, and never said that the one before%s was over", t.inst.who(), t.session.id,
				clock(x.w.now), inBrackets(t.fence))
		}
	}
}

func (x *endings) event(e *history.Event) {
	switch e.Kind {
	case history.TapDown:
		x.gap = e.T
	case history.Lost, history.Released:
		t := x.over
		x.over = nil
		switch {
		case x.w.Foreign:
		case t != nil:
			x.cause(t, e)
		case !x.w.reporter.asks:
			x.broke(x.w.subject, "%s said %s of session %s%s at %s (%s), and had no such term: it was over, or had never begun", x.w.reporter.who(),
				e.Kind, e.Session, inBrackets(e.Fence), clock(e.T), e.Reason)
		}
	}
}

func (x *endings) aside(e *history.Event) { x.gap = e.T }

// cause checks the reason of a loss against Redis: no instance has the lease (gone), or another one has it (taken).
func (x *endings) cause(t *term, e *history.Event) {
	if e.Kind != history.Lost || !x.w.Tap || x.gap >= t.since {
		return
	}
	s, at := t.session, e.T
	switch why, _, _ := strings.Cut(e.Reason, ":"); why {
	case "gone":
		k := s.granted
		if k != nil && k.holder == t.inst.id && k.since <= t.since && (k.until == 0 || k.until > at+expirySlack) {
			x.broke(s, "%s said at %s that its lease of session %s%s was gone, and Redis had held it for it all the time", t.inst.who(),
				clock(at), s.id, inBrackets(t.fence))
		}
	case "taken":
		x.w.at(x.w.host.recordedBy(at), func() { // the stream may come after the answer
			if !x.w.givenAway(t) {
				x.broke(s, "%s said at %s that its lease of session %s%s was taken, and Redis had given it to nobody else since the term began at %s",
					t.inst.who(), clock(at), s.id, inBrackets(t.fence), clock(t.since))
			}
		})
	}
}

// givenAway reports whether Redis has granted the lease to another instance since it granted the term.
func (w *world) givenAway(t *term) bool {
	for _, k := range slices.Backward(t.session.grants) {
		switch {
		case k.gone == 0: // the view of Redis was lost
		case k.holder != t.inst.id:
			return true
		case k.since < t.since:
			return false
		}
	}
	return false
}
