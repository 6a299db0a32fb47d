package check

import (
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g4 judges that a renewal that fails, or is not answered in time, stops polling at once, and that no polling begins again before a
// success. At the end of the trust window running polls must be cancelled.
type g4 struct {
	hooks
	failures  int
	silent    int // renewals without an answer in time
	cancelled int // polls that ran when a window closed
	frozen    int // polls of processes that had just been thawed
	stalled   int // polls that began in the moment in which their renewal's timeout was noticed
	starts    bool
	asks      bool // some nodes query Redis before each poll: renewals do not decide for them
}

// renewal is the state of one instance's renewals and polls of one session.
type renewal struct {
	inst    *instance
	session *session
	armed   int64 // time of the timer for the end of the window; 0: no timer

	failed   bool
	failAt   int64
	noticed  int64        // when it last reported a failure or the end of its term
	failedBy history.Kind // kind of the event that reported the failure
	reason   string
	sent     int64 // start of the renewal that waits for its answer; 0: none
	running  int
	begun    int64
	closes   int64 // last reported end of the window
	overrun  int64 // end of a window that closed during a poll
}

func (g *g4) renewal() *renewal {
	s := g.w.subject
	for _, r := range slices.Backward(s.renewals) { // mostly the latest one
		if r.inst == g.w.reporter {
			return r
		}
	}
	r := &renewal{inst: g.w.reporter, session: s}
	s.renewals = append(s.renewals, r)
	return r
}

func (r *renewal) fail(e *history.Event) {
	r.failed, r.failAt, r.failedBy, r.reason, r.sent, r.noticed = true, e.T, e.Kind, e.Reason, 0, e.T
}

func (r *renewal) why() string {
	if r.failedBy == history.RenewFailed {
		return fmt.Sprintf("its renewal had failed at %s (%s) and none had succeeded since", clock(r.failAt), r.reason)
	}
	return fmt.Sprintf("it had said %s at %s (%s) and not acquired it since", r.failedBy, clock(r.failAt), r.reason)
}

func (g *g4) event(e *history.Event) {
	switch {
	case e.Kind < history.Acquired || e.Kind > history.PollEnd:
		if e.Kind == history.Exited {
			g.forget(e)
		}
		return
	}
	if g.w.reporter.asks {
		g.asks = true
		return
	}
	r := g.renewal()
	switch e.Kind {
	case history.Acquired, history.Renewed:
		r.failed, r.failAt, r.reason, r.sent = false, 0, "", 0
		r.closes = max(r.closes, e.Until)
		g.watch(r)
	case history.RenewStart:
		g.starts = true
		if r.sent == 0 {
			r.sent = e.T
		}
	case history.RenewFailed:
		g.failures++
		g.exercise(g.w.ails(g.w.subject, r.inst))
		r.fail(e)
	case history.Lost, history.Released:
		r.fail(e)
	case history.PollStart:
		g.started(r, e)
	case history.PollCancelled, history.PollEnd:
		g.returned(r, e)
	}
}

func (g *g4) forget(e *history.Event) {
	for _, s := range g.w.sessions.all {
		s.renewals = slices.DeleteFunc(s.renewals, func(r *renewal) bool {
			return r.inst.gone && r.inst.node != nil && r.inst.node.name == e.Node
		})
	}
}

func (g *g4) started(r *renewal, e *history.Event) {
	r.running++
	r.begun = e.T
	slack := int64(stampAllowance)
	late := func(since int64) bool {
		if e.T <= since+slack {
			return false
		}
		if r.inst.node.frozenWithin(e.T - thawGrace) {
			g.frozen++
			return false
		}
		return true
	}
	s := g.w.subject
	switch {
	case r.failed:
		if late(r.failAt) {
			g.broke(s, "%s began a poll of session %s at %s although %s", r.inst.who(), e.Session, clock(e.T), r.why())
		}
	case r.closes != 0 && late(r.closes):
		g.broke(s, "%s began a poll of session %s at %s, after its trust window had closed at %s", r.inst.who(), e.Session,
			clock(e.T), clock(r.closes))
	case g.unanswered(r, e.T):
		g.silent++
		g.exercise(g.w.ails(s, r.inst))
		if late(g.due(r)) {
			g.overdue(r, e.T)
		}
	}
}

// overdue judges a poll that began when a renewal should have been answered. Only renewFailed shows the timeout. A process that the host
// did not run notices both at once.
func (g *g4) overdue(r *renewal, at int64) {
	due, sent := g.due(r), r.sent
	patience := func() int64 { // the host's stalls are known only afterwards
		if stall := g.w.stall(sent, g.w.now); stall > 0 {
			return thawGrace + stall
		}
		return int64(stampAllowance)
	}
	var look func()
	look = func() {
		switch until := at + patience(); {
		case r.noticed >= at || r.sent != sent && g.w.stall(sent, at) > 0: // it failed, or the host delayed the answer too
			g.stalled++
		case until > g.w.now:
			g.w.at(until, look)
		default:
			r.sent = 0
			g.broke(r.session, "%s began a poll of session %s at %s although a renewal was to be answered by %s and was not",
				r.inst.who(), r.session.id, clock(at), clock(due))
		}
	}
	g.w.at(at+patience(), look)
}

// unanswered reports whether a renewal is overdue. The timeout of a foreign node's renewals is unknown.
func (g *g4) unanswered(r *renewal, now int64) bool {
	return !g.w.Foreign && g.w.RenewTimeout > 0 && r.sent != 0 && now > g.due(r)+int64(stampAllowance)
}

// due returns when a renewal must have been answered. The node's clock may run 1 % slow, as the margin of a trust window allows.
func (g *g4) due(r *renewal) int64 {
	return r.sent + int64(g.w.RenewTimeout) + int64(g.w.RenewTimeout)/100
}

// watch records polls that still run when the window closes. One timer follows the window.
func (g *g4) watch(r *renewal) {
	if r.closes == 0 || r.armed != 0 {
		return
	}
	r.armed = r.closes
	g.w.at(r.armed, func() {
		due := r.armed
		r.armed = 0
		switch {
		case r.inst.gone:
		case r.closes > due:
			g.watch(r)
		case r.running > 0:
			r.overrun = due
		}
	})
}

// returned judges the end of a poll that ran when its window closed. Nodes that do not report ends of polls are not judged.
func (g *g4) returned(r *renewal, e *history.Event) {
	r.running = max(0, r.running-1)
	if e.Kind == history.PollCancelled {
		r.running = 0
	}
	closed := r.overrun
	if closed == 0 {
		return
	}
	r.overrun = 0
	g.cancelled++
	g.exercise(g.w.ails(r.session, r.inst))
	if e.T > closed+g.w.margin()+g.w.stall(closed, e.T) && !r.inst.node.frozenWithin(closed) {
		g.broke(r.session, "a poll of session %s that %s began at %s ran until %s, although its trust window had closed "+
			"at %s", r.session.id, r.inst.who(), clock(r.begun), clock(e.T), clock(closed))
	}
}

func (g *g4) verdict() Verdict {
	v := g.hooks.verdict()
	v.Detail = join(v.Detail, fmt.Sprintf("%d renewals failed, %d polls ran when a window closed", g.failures, g.cancelled))
	if g.frozen > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d polls of processes that had just been thawed", g.frozen))
	}
	if g.stalled > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d polls began just when a time-out was noticed", g.stalled))
	}
	switch {
	case g.asks:
		v.Detail = join(v.Detail, "nodes that ask before each poll are not judged: they go by what Redis answered then")
	case g.w.Foreign:
		v.Detail = join(v.Detail, "renewals without an answer are not judged: the nodes' own time-out is not known")
	case !g.starts:
		v.Detail = join(v.Detail, "renewals without an answer are not judged: the nodes do not tell of renewals that they send")
	}
	return v
}
