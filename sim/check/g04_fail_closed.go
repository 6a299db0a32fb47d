package check

import "github.com/leasestorm/leasestorm/sim/history"

// g4 promises that polling stops at once if a renewal fails or is not answered in time, and begins again only after a successful
// renewal. At the end of the trust window, running polls must be cancelled.
//
// It follows what each instance says of its renewals and polls of each session, in the order of the events.
type g4 struct {
	hooks
	failures  int
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
	failure history.Event // the last event that reported a failure, or the end of the term, if no success followed; no kind: none
	sent    int64         // start of the renewal that waits for its answer; 0: none
	overdue int64         // start of a poll that began when that renewal should have been answered, and is not judged yet; 0: none
	running int           // polls
	begun   int64         // start of the last of them
	closes  int64         // last reported end of the window
	closed  int64         // the last such end that has passed
	overrun int64         // end of a window that closed during a poll; 0: none
}

func (g *g4) renewal() *renewal {
	i, s := g.w.reporter, g.w.subject
	r := i.renewals[s]
	if r == nil {
		r = &renewal{inst: i, session: s}
		i.renewals[s] = r
	}
	return r
}

func (g *g4) event(e *history.Event) {
	switch {
	case e.Kind < history.Acquired || e.Kind > history.PollEnd:
		return
	case g.w.reporter.asks:
		g.asks = true
		return
	}
	r := g.renewal()
	if r.closes > r.closed && r.closes < e.T {
		if r.closed = r.closes; r.running > 0 && !r.inst.gone {
			r.overrun = r.closes
		}
	}
	if r.overdue != 0 {
		g.noticed(r, e)
	}
	switch e.Kind {
	case history.Acquired, history.Renewed:
		r.failure, r.sent = history.Event{}, 0
		r.closes = max(r.closes, e.Until)
	case history.RenewStart:
		g.starts = true
		if r.sent == 0 {
			r.sent = e.T
		}
	case history.RenewFailed:
		g.failures++
		g.exercise(g.w.ails(r.session, r.inst))
		r.failure, r.sent = *e, 0
	case history.Lost, history.Released:
		r.failure, r.sent = *e, 0
	case history.PollStart:
		g.started(r, e.T)
	case history.PollCancelled, history.PollEnd:
		g.returned(r, e)
	}
}

func (g *g4) started(r *renewal, now int64) {
	r.running++
	r.begun = now
	switch f := &r.failure; {
	case f.Kind != history.KindUnknown:
		if g.late(r, f.T) {
			g.broke(r.session, "%s began a poll of session %s at %s although it had said %s at %s (%s) and neither acquired nor renewed it since",
				r.inst.who(), r.session.id, clock(now), f.Kind, clock(f.T), f.Reason)
		}
	case r.closes != 0 && g.late(r, r.closes):
		g.broke(r.session, "%s began a poll of session %s at %s, after its trust window had closed at %s", r.inst.who(), r.session.id,
			clock(now), clock(r.closes))
	case !g.w.Foreign && g.w.RenewTimeout > 0 && r.sent != 0 && now > g.w.host.stampedBy(g.due(r)):
		g.exercise(g.w.ails(r.session, r.inst))
		if g.late(r, g.due(r)) {
			r.overdue = now
		}
	}
}

// late reports whether a poll that begins now began after since. A process that has just been thawed cannot know of the failure
// yet.
func (g *g4) late(r *renewal, since int64) bool {
	if g.w.now <= g.w.host.stampedBy(since) {
		return false
	}
	if g.w.fleet.woke(r.inst.node, g.w.now) {
		g.frozen++
		return false
	}
	return true
}

// due returns when a renewal must have been answered. The node's clock may run 1 % slow, as the margin of a trust window allows.
func (g *g4) due(r *renewal) int64 { return r.sent + int64(g.w.RenewTimeout)*101/100 }

// noticed judges the overdue poll by what its instance says next. Only renewFailed shows the timeout. A process that the host did not run
// notices both at once, and the host may have delayed the answer too.
func (g *g4) noticed(r *renewal, e *history.Event) {
	patience := int64(stampAllowance)
	if stall := g.w.host.stall(r.sent, e.T); stall > 0 {
		patience = thawGrace + stall
	}
	answers, inTime := e.Kind == history.Acquired || e.Kind == history.Renewed, e.T <= r.overdue+patience
	fails := e.Kind == history.RenewFailed || e.Kind == history.Lost || e.Kind == history.Released
	switch {
	case inTime && (fails || answers && g.w.host.stall(r.sent, r.overdue) > 0):
		g.stalled++
	case inTime && !answers:
		return
	default:
		g.broke(r.session, "%s began a poll of session %s at %s although a renewal was to be answered by %s and was not", r.inst.who(),
			r.session.id, clock(r.overdue), clock(g.due(r)))
		r.sent = 0
	}
	r.overdue = 0
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
	if e.T > closed+g.w.margin()+g.w.host.stall(closed, e.T) && !r.inst.node.frozenWithin(closed) {
		g.broke(r.session, "a poll of session %s that %s began at %s ran until %s, although its trust window had closed "+
			"at %s", r.session.id, r.inst.who(), clock(r.begun), clock(e.T), clock(closed))
	}
}

func (g *g4) finish() {
	g.note("%d renewals failed, %d polls ran when a window closed", g.failures, g.cancelled)
	g.noteSome(g.frozen, "%d polls of processes that had just been thawed")
	g.noteSome(g.stalled, "%d polls began just when a time-out was noticed")
	switch {
	case g.asks:
		g.note("nodes that ask before each poll are not judged: they go by what Redis answered then")
	case g.w.Foreign:
		g.note("renewals without an answer are not judged: the nodes' own time-out is not known")
	case !g.starts:
		g.note("renewals without an answer are not judged: the nodes do not tell of renewals that they send")
	}
}
