package check

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// g8 judges that no session is unpolled for longer than
//   - one TTL + one poll interval + 250 ms around any join, leave, crash or partition of its owner;
//   - one discovery interval + 1 s after it appeared;
//   - one poll interval + 100 ms around a graceful handover.
//
// Only polls that the target accepted count. G9 judges the effects of Redis' own faults.
type g8 struct {
	hooks
	gap, hand, news class
	storm           int64
}

// class is one of the three promises.
type class struct {
	limit, worst int64
	n            int
	took         *measure.Times
	kind         string // of the change, if no fault explains it
	around       string
}

type polled struct {
	of      *session
	known   bool   // the session appeared, or was polled
	serving int    // polls that the target is serving
	last    int64  // end of the last poll, or when the session appeared
	inst    string // instance that polled last
	fresh   bool   // it appeared and has not been polled yet
	initial bool   // it existed before the storm
	handed  bool   // its owner has released it since, not as part of a stop
	handedA string
	left    int64 // end of a lease that Redis held when the session appeared, and whose owner had lost it; 0: none
	sent    int64 // start of a renewal by the last poller that Redis has not executed yet; 0: none
	late    int64 // delay of the renewal that was in flight when the last poll ended
}

func (g *g8) attach(w *world, v Verdict) {
	v.Limit = ms(int64(w.TTL + w.Poll + FailoverAllowance))
	g.hooks.attach(w, v)
	g.gap = class{limit: int64(w.TTL + w.Poll + FailoverAllowance), took: g.measures("gap"), around: "no fault of the plan explains it"}
	g.hand = class{
		limit: int64(w.Poll + handoverAllowance), took: g.measures("handover"), kind: "handover", around: "a graceful handover",
	}
	g.news = class{limit: int64(w.Discovery + appearAllowance), took: g.measures("appeared"), kind: "appeared", around: "it had appeared"}
}

func (g *g8) target() *polled {
	p := &g.w.subject.polled
	if !p.known {
		*p = polled{of: g.w.subject, known: true, last: g.w.now, initial: true}
	}
	return p
}

func (g *g8) event(e *history.Event) {
	if g.w.phase == "end" {
		if e.Kind == history.Phase {
			g.remaining()
		}
		return
	}
	switch e.Kind {
	case history.Phase:
		if e.Reason == "storm" {
			g.storm = e.T
		}
	case history.SessionAdded, history.SessionResumed:
		if g.w.subject.unpaused() {
			g.w.subject.polled = polled{
				of: g.w.subject, known: true, last: e.T, fresh: true, initial: g.w.phase == "" || g.w.phase == "start", left: g.w.subject.lost(e.T),
			}
		}
	case history.Served, history.Aborted:
		p := g.target()
		p.serving = max(0, p.serving-1)
		p.last = e.T
	case history.Released:
		g.released(e)
	case history.RenewStart, history.RedisExtended:
		g.target().renewal(e, int64(g.w.Poll))
	case history.Arrived:
		p := g.target()
		switch {
		case !g.w.subject.unpaused():
			g.unwanted(e)
		case p.serving == 0:
			g.polled(p, e)
		}
		p.serving++
		p.inst, p.last, p.late = e.Instance, e.T, 0
		p.fresh, p.initial, p.handed, p.left = false, false, false, 0
	}
}

// renewal records the renewal that was in flight when the last poll ended. A renewal that begins later does not extend the limit.
func (p *polled) renewal(e *history.Event, poll int64) {
	switch {
	case e.Kind == history.RenewStart && p.inst == e.Instance:
		p.sent = 0
		if e.T <= p.last+poll {
			p.sent = e.T
		}
	case e.Kind == history.RedisExtended:
		if p.inst == e.Instance && p.sent != 0 {
			p.sent, p.late = 0, e.T-p.sent
		}
		if p.left != 0 {
			p.left = max(p.left, e.Until)
		}
	}
}

// released records a graceful handover, unless the owner is stopping.
func (g *g8) released(e *history.Event) {
	i := g.w.reporter
	if i.node != nil && (i.node.asked != nil || i.gone) {
		return
	}
	p := g.target()
	p.handed, p.handedA = true, e.Instance
}

// since returns the start of the gap that ends now. No instance can acquire a lease before an earlier one ends.
func (g *g8) since(p *polled) int64 {
	since := max(p.last, g.storm)
	if g.w.allows(nobodyThere) {
		since = max(since, g.w.fleet.populatedSince)
	}
	if g.w.allows(lostLeases) {
		since = max(since, p.left)
	}
	return since
}

func (g *g8) polled(p *polled, e *history.Event) {
	from := g.since(p)
	if e.T <= from {
		return
	}
	gap, another := e.T-from, p.inst != e.Instance
	handed := p.handed && e.Instance != p.handedA
	switch {
	case p.fresh && p.initial && g.w.allows(coldStarts):
		return // a cold start
	case !p.fresh && !handed && !another && gap <= g.hand.limit:
		return // in time, by the same instance: nearly every poll, so no causes are searched
	}
	by := g.causes(e.Session, from, e.T)
	switch {
	case p.fresh:
		g.judge(&g.news, p, from, by, e)
	case handed && len(by) == 0:
		g.judge(&g.hand, p, from, nil, e)
	case gap > g.hand.limit || (another && len(by) > 0):
		g.judge(&g.gap, p, from, by, e)
	}
}

// unwanted judges a poll of a removed or paused session. Its owner notices at its second discovery after that.
func (g *g8) unwanted(e *history.Event) {
	s, by := g.w.subject, g.w.fleet.instances[e.Instance]
	if !s.added || by == nil || by.node == nil {
		return
	}
	limit := int64(2*g.w.Discovery + g.w.PollTimeout)
	c := promise{from: s.addedAt, base: s.addedAt, by: s.addedAt + limit, settle: limit, only: by.node}
	if limit, stands := g.held(c); stands == tooLate {
		g.broke(s, "session %s was polled by %s at %s, %d ms after it had been removed or paused (limit %d ms)", s.id,
			by.who(), clock(e.T), ms(e.T-s.addedAt), ms(limit))
	}
}

// judge judges a gap that ended with the poll e, or with the end of the run. After several faults, the limit counts from the last
// fault.
func (g *g8) judge(c *class, p *polled, from int64, by []*injection, e *history.Event) {
	due := promise{
		from: from, base: from, by: from + c.limit, settle: g.gap.limit, settleLife: g.w.settleAfter() + int64(g.w.Poll), kind: c.kind,
	}
	b, around := breach{session: p.of, from: from}, c.around
	if len(by) > 0 {
		due.kind, b.by = string(by[0].Kind), by[0]
	}
	if c == &g.gap {
		if g.w.allows(renewalsInFlight) {
			due.by += p.late
		}
		due.but = g.simple(by, from)
		if len(by) > 0 {
			around = "around " + by[0].String()
		}
	}
	if until, _ := g.w.deadlines.due(due); e == nil && g.w.now <= until {
		return // the run ended before it was due
	}
	limit, stands := g.held(due)
	if stands == unjudged {
		return
	}
	gap := g.w.now - from
	c.took.Add(gap)
	c.n++
	if c.worst = max(c.worst, gap); stands == inTime {
		return
	}
	b.due = from + limit
	if e == nil {
		g.breach(b, "session %s was not polled any more: %d ms from %s to the end of the run (%s; limit %d ms)", p.of.id, ms(gap),
			clock(from), around, ms(limit))
		return
	}
	g.breach(b, "session %s was not polled for %d ms, from %s to %s, when %s polled it (%s; limit %d ms)", p.of.id, ms(gap), clock(from),
		clock(e.T), g.w.fleet.who(e.Instance), around, ms(limit))
}

// simple returns the fault that explains a gap, if there is only one and it is the loss of an instance, which the limit includes;
// otherwise nil.
func (g *g8) simple(by []*injection, from int64) *injection {
	if len(by) != 1 || by[0].ofRedis() || g.beyond(by[0], from) {
		return nil
	}
	return by[0]
}

// beyond reports whether the fault can do more harm than the loss of one instance among several: no other instance can take over, or
// messages are so late that renewals extend the lease but their answers come too late.
func (g *g8) beyond(inj *injection, from int64) bool {
	switch inj.Kind {
	case fault.Reorder:
		return true
	case fault.Latency:
		return 2*(inj.Ms+inj.Jitter)*int64(time.Millisecond) > int64(g.w.RenewTimeout) || g.w.fleet.alive < 2 || g.w.fleet.redundantSince > from
	default:
		return inj.Has(fault.Silences) && (g.w.fleet.alive < 2 || g.w.fleet.redundantSince > from)
	}
}

// causes returns the faults that could prevent polls of the session between from and to. The owner of a deleted key renews, and learns of
// the deletion, well within a TTL.
func (g *g8) causes(session string, from, to int64) (by []*injection) {
	for _, inj := range g.w.faults.since(from) {
		r, ok := g.w.faults.reach(inj)
		if inj.Has(fault.Holds | fault.Deletes) {
			r, ok = span{inj.From, max(inj.To, inj.From+int64(g.w.TTL))}, inj.session == session
		}
		if ok && r.from <= to && r.to >= from {
			by = append(by, inj)
		}
	}
	return by
}

// remaining judges the sessions that are unpolled when the run ends.
func (g *g8) remaining() {
	if g.w.fleet.alive == 0 {
		return // no instance is left to poll
	}
	for _, s := range g.w.fleet.sorted() {
		p := &s.polled
		if !p.known || p.serving > 0 || !s.unpaused() {
			continue
		}
		if from := g.since(p); g.w.now-from > g.gap.limit {
			g.judge(&g.gap, p, from, g.causes(s.id, from, g.w.now), nil)
		}
	}
}

func (g *g8) finish() {
	if g.exercised > 0 {
		g.note("%d gaps around faults (%s), %d graceful handovers (%s), %d sessions appeared (%s)", g.gap.n, &g.gap, g.hand.n, &g.hand,
			g.news.n, &g.news)
	}
}

func (c *class) String() string { return fmt.Sprintf("max %d of %d ms", ms(c.worst), ms(c.limit)) }
