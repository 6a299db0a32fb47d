package check

import (
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// endings judges two rules: a term ends with exactly one lost or released, and its reason agrees with Redis. Instances that query Redis
// before each use have no terms to lose. Another program may report less.
type endings struct {
	over    *term                   // term that the current event ended
	taken   map[leaseAt]*succession // last grants that Redis has shown
	servers []string
	gap     int64 // last time at which the view of Redis may be incomplete
}

// leaseAt is a lease as one server holds it. The server "" is the only one, or the master that the sentinels know.
type leaseAt struct {
	session *session
	server  string
}

// succession is the last owner of a lease, as Redis shows it.
type succession struct {
	holder string
	since  int64 // when it was first granted the lease
}

// ended is called for each end of a term, before the event that caused it.
func (x *endings) ended(h *hooks, t *term, how ending) {
	switch how {
	case endLost, endReleased:
		x.over = t
	case endReplaced:
		if !t.inst.asks && !h.w.Foreign {
			h.broke(t.session, "%s began a new term of session %s at %s, and never said that the one before%s was over", t.inst.who(), t.session.id,
				clock(h.w.now), inBrackets(t.fence))
		}
	}
}

func (x *endings) event(h *hooks, e *history.Event) {
	if h.w.Foreign {
		return
	}
	switch e.Kind {
	case history.RedisGranted:
		x.granted(h, e)
	case history.TapDown:
		x.gap = e.T
	case history.Lost, history.Released:
		t := x.over
		x.over = nil
		if t == nil && !h.w.reporter.asks {
			h.broke(h.w.subject, "%s said %s of session %s%s at %s (%s), and had no such term: it was over, or had never begun", h.w.reporter.who(),
				e.Kind, e.Session, inBrackets(e.Fence), clock(e.T), e.Reason)
		}
		if t != nil && e.Kind == history.Lost {
			x.cause(h, t, e)
		}
	}
}

// aside handles another server. It may have given the lease to another instance, or answered for a key that it does not have.
func (x *endings) aside(h *hooks, e *history.Event) {
	if !h.w.Foreign && e.Kind == history.RedisGranted {
		x.granted(h, e)
	}
	x.gap = e.T
}

func (x *endings) granted(h *hooks, e *history.Event) {
	if x.taken == nil {
		x.taken = map[leaseAt]*succession{}
	}
	at := leaseAt{session: h.w.subject}
	if h.w.replicated() {
		at.server = e.Node
	}
	s := x.taken[at]
	if s == nil {
		s = &succession{}
		x.taken[at] = s
		if !slices.Contains(x.servers, at.server) {
			x.servers = append(x.servers, at.server)
		}
	}
	if s.holder != e.Instance {
		s.holder, s.since = e.Instance, e.T
	}
}

const (
	causeTaken = "taken" // another instance has the lease
	causeGone  = "gone"  // no instance has the lease
)

// cause checks the reason of a loss against Redis.
func (x *endings) cause(h *hooks, t *term, e *history.Event) {
	why, _, _ := strings.Cut(e.Reason, ":")
	switch {
	case !h.w.Tap || x.gap >= t.since:
	case why == causeGone:
		k := h.w.subject.granted
		if k != nil && k.holder == t.inst.id && k.since <= t.since && (k.until == 0 || k.until > e.T+expirySlack) {
			h.broke(h.w.subject, "%s said at %s that its lease of session %s%s was gone, and Redis had held it for it all the time", t.inst.who(),
				clock(e.T), t.session.id, inBrackets(t.fence))
		}
	case why == causeTaken:
		s, at := h.w.subject, e.T
		h.w.at(at+eventAllowance, func() { // the stream may come after the answer
			for _, server := range x.servers {
				if g := x.taken[leaseAt{s, server}]; g != nil && (g.holder != t.inst.id || g.since >= t.since) {
					return
				}
			}
			h.broke(s, "%s said at %s that its lease of session %s%s was taken, and Redis had given it to nobody else since the term began at %s",
				t.inst.who(), clock(at), s.id, inBrackets(t.fence), clock(t.since))
		})
	}
}
