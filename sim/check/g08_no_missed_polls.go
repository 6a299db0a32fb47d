package check

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g8 judges that no session is unpolled for longer than
//   - one TTL + one poll interval + 250 ms around any join, leave, crash or partition of its owner;
//   - one discovery interval + 1 s after it appeared;
//   - one poll interval + 100 ms around a graceful handover.
//
// Only polls that the target accepted count. G9 judges the effects of Redis' own faults.
type g8 struct {
	hooks
	gapLimit, handLimit, news int64
	gap, hand, appear         int64 // the worst of each
	gaps, hands, appears      int
	took                      [3]*times
	storm                     int64
}

type polled struct {
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
	g.gapLimit = int64(w.TTL + w.Poll + failoverAllowance)
	g.handLimit = int64(w.Poll + handoverAllowance)
	g.news = int64(w.Discovery + appearAllowance)
	v.Limit = ms(g.gapLimit)
	g.hooks.attach(w, v)
	g.took = [...]*times{g.measures("gap"), g.measures("handover"), g.measures("appeared")}
}

func (g *g8) target() *polled {
	p := &g.w.subject.polled
	if !p.known {
		*p = polled{known: true, last: g.w.now, initial: true}
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
				known: true, last: e.T, fresh: true, initial: g.w.phase == "" || g.w.phase == "start", left: g.w.subject.lost(e.T),
			}
		}
	case history.Served, history.Aborted:
		p := g.target()
		p.serving = max(0, p.serving-1)
		p.last = e.T
	case history.Released:
		g.released(e)
	case history.RenewStart:
		if p := g.target(); p.inst == e.Instance {
			p.sent = 0 // a renewal after the end of polling does not widen the limit
			if e.T <= p.last+int64(g.w.Poll) {
				p.sent = e.T
			}
		}
	case history.RedisExtended:
		if p := g.target(); p.inst == e.Instance && p.sent != 0 {
			p.sent, p.late = 0, e.T-p.sent
		}
		if p := g.target(); p.left != 0 {
			p.left = max(p.left, e.Until)
		}
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

// released records a graceful handover, unless the owner is stopping.
func (g *g8) released(e *history.Event) {
	i := g.w.reporter
	if i.node != nil && (i.node.asked != nil || i.gone) {
		return
	}
	p := g.target()
	p.handed, p.handedA = true, e.Instance
}

func (g *g8) polled(p *polled, e *history.Event) {
	from := max(p.last, g.storm, g.w.populatedSince, p.left) // no instance can acquire a lease before it ends
	if e.T <= from {
		return
	}
	gap, another := e.T-from, p.inst != e.Instance
	handed := p.handed && e.Instance != p.handedA
	switch {
	case p.fresh && p.initial:
		return // a cold start
	case !p.fresh && !handed && !another && gap <= g.handLimit:
		return // in time, by the same instance: nearly every poll, so no causes are searched
	}
	by := g.causes(e.Session, from, e.T)
	switch {
	case p.fresh:
		g.class(2, e, g.promise(from, g.news, nil), by)
	case handed && len(by) == 0:
		g.class(1, e, g.promise(from, g.handLimit, nil), nil)
	case gap > g.handLimit || (another && len(by) > 0):
		g.class(0, e, g.promise(from, g.gapLimit+p.late, g.simple(by, from)), by)
	}
}

// unwanted judges a poll of a removed or paused session. Its owner notices at its second discovery after that.
func (g *g8) unwanted(e *history.Event) {
	s := g.w.subject
	if !s.added || g.w.nodeOf(e) == nil {
		return
	}
	limit := int64(2*g.w.Discovery + g.w.PollTimeout)
	c := promise{from: s.addedAt, base: s.addedAt, by: s.addedAt + limit, settle: limit, only: g.w.nodeOf(e)}
	if limit, stands := g.held(c); stands == tooLate {
		g.broke(s, "session %s was polled by %s at %s, %d ms after it had been removed or paused (limit %d ms)", s.id,
			g.w.instance(e.Instance).who(), clock(e.T), ms(e.T-s.addedAt), ms(limit))
	}
}

// promise returns the promise that a session is polled again. After several faults, the limit applies from the last one.
func (g *g8) promise(from, limit int64, but *injection) promise {
	return promise{
		from: from, base: from, by: from + limit, settle: g.gapLimit, settleLife: g.w.settleAfter() + int64(g.w.Poll), but: but,
	}
}

// simple returns the one fault that explains a gap if it is only the loss of an instance, which the limit allows for; else nil.
func (g *g8) simple(by []*injection, from int64) *injection {
	if len(by) != 1 || by[0].ofRedis() || g.beyond(by[0], from) {
		return nil
	}
	return by[0]
}

// beyond reports whether the fault is more than the loss of an instance. It may have hit the only instance. Or it delays messages so much
// that renewals extend the lease but are not answered in time.
func (g *g8) beyond(inj *injection, from int64) bool {
	switch inj.Kind {
	case fault.Reorder:
		return true
	case fault.Latency:
		return 2*(inj.Ms+inj.Jitter)*int64(time.Millisecond) > int64(g.w.RenewTimeout) || g.w.alive < 2 || g.w.redundantSince > from
	default:
		return inj.silences() && (g.w.alive < 2 || g.w.redundantSince > from)
	}
}

// class judges a gap of one of three kinds: 0 around a fault, 1 a handover, 2 a session that appeared.
func (g *g8) class(kind int, e *history.Event, p promise, by []*injection) {
	if p.kind = [...]string{"", "handover", "appeared"}[kind]; len(by) > 0 {
		p.kind = string(by[0].Kind)
	}
	limit, stands := g.held(p)
	if stands == unjudged {
		return
	}
	gap := e.T - p.base
	g.took[kind].add(gap)
	worst := []*int64{&g.gap, &g.hand, &g.appear}[kind]
	*[]*int{&g.gaps, &g.hands, &g.appears}[kind]++
	*worst = max(*worst, gap)
	if stands == inTime {
		return
	}
	around := []string{g.around(by), "a graceful handover", "it had appeared"}[kind]
	g.breach(g.late(g.w.subject, p, limit, by), "session %s was not polled for %d ms, from %s to %s, when %s polled it (%s; limit %d ms)",
		e.Session, ms(gap), clock(p.base), clock(e.T), g.w.instance(e.Instance).who(), around, ms(limit))
}

func (g *g8) late(s *session, p promise, limit int64, by []*injection) breach {
	b := breach{session: s, from: p.base, due: p.base + limit}
	if len(by) > 0 {
		b.by = by[0]
	}
	return b
}

func (g *g8) around(by []*injection) string {
	if len(by) == 0 {
		return "no fault of the plan explains it"
	}
	return "around " + by[0].String()
}

// causes returns the faults that could prevent polls of the session between from and to. The owner of a deleted key renews, and learns of
// the deletion, well within a TTL.
func (g *g8) causes(session string, from, to int64) (by []*injection) {
	for _, inj := range g.w.since(from) {
		r, ok := g.w.reach(inj)
		if inj.has(fault.Holds | fault.Deletes) {
			r, ok = span{inj.start, max(inj.end, inj.start+int64(g.w.TTL))}, inj.session == session
			if inj.open {
				r.to = to
			}
		}
		if ok && r.from <= to && r.to >= from {
			by = append(by, inj)
		}
	}
	return by
}

// remaining judges the sessions that are unpolled when the run ends.
func (g *g8) remaining() {
	if g.w.alive == 0 {
		return // no instance is left to poll
	}
	for _, s := range g.w.sessions.sorted() {
		p := &s.polled
		if !p.known || p.serving > 0 || !s.unpaused() {
			continue
		}
		from := max(p.last, g.storm, g.w.populatedSince, p.left)
		gap, by := g.w.now-from, g.causes(s.id, from, g.w.now)
		due := g.promise(from, g.gapLimit, g.simple(by, from))
		until, _ := g.w.due(due)
		if g.within(gap, until-from, from) {
			continue
		}
		g.gap = max(g.gap, gap)
		g.near(gap, until-from)
		b := g.late(s, due, until-from, by)
		g.took[0].add(gap)
		g.exercise(g.w.blame(&b).name())
		g.breach(b, "session %s was not polled any more: %d ms from %s to the end of the run (%s; limit %d ms)", s.id, ms(gap),
			clock(from), g.around(by), ms(until-from))
	}
}

func (g *g8) verdict() Verdict {
	v := g.hooks.verdict()
	g.nearest(&v)
	if g.exercised > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d gaps around faults (max %d of %d ms), %d graceful handovers (max %d of %d ms), %d "+
			"sessions appeared (max %d of %d ms)", g.gaps, ms(g.gap), ms(g.gapLimit), g.hands, ms(g.hand), ms(g.handLimit),
			g.appears, ms(g.appear), ms(g.news)))
	}
	return v
}
