package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g9: when Redis fails and returns, G1 to G3 hold, and every session is polled again within one renewal interval and one poll
// interval (+ 250 ms) of its return, or, where trust windows had closed and a quarantine runs, of the quarantine's end.
type g9 struct {
	hooks
	safety     []*hooks     // G1 to G3
	failing    []*injection // of Redis, not yet returned from
	recoveries []*recovery
	after      map[string]int // recoveries judged, by kind of fault
	took       *times
	judged     []*recovery
	asserted   asserted
}

// recovery is the time after one return of Redis.
type recovery struct {
	injection *injection
	back      int64
	missing   map[string]int64 // session → its limit after back
	late      map[string]int64 // session → how long it took
	slowest   int64
	limit     int64      // of the slowest
	moved     *injection // the fault that moved a limit furthest; nil: none did
	further   int64      // how far
	excused   *injection // a fault that moved one too far to judge it
	over      bool
}

func (g *g9) attach(w *world, v Verdict) {
	v.Limit = ms(int64(w.Renew + w.Poll + failoverAllowance))
	g.hooks.attach(w, v)
	g.after, g.took = map[string]int{}, g.measures("recovery")
	if w.replicated() {
		g.asserted = asserted{g: g, waits: map[*term]*assertion{}, took: g.measures("re-assertion")}
	}
}

func (g *g9) injected(inj *injection) {
	if inj.has(fault.Deletes) { // its owner loses it by another cause
		for _, r := range g.recoveries {
			delete(r.missing, inj.session)
		}
	}
	if !inj.ofRedis() {
		return
	}
	switch {
	case inj.did == didLife || inj.did == didPlan && inj.has(fault.Instant):
		g.returned(inj)
	case inj.did == didPlan && inj.Kind == fault.RedisSlow:
		g.failing = append(g.failing, inj)
		g.w.at(inj.start+inj.Ms*int64(time.Millisecond), func() { g.back(inj) })
	default:
		g.failing = append(g.failing, inj)
	}
}

// finish holds G1 to G3 against the times in which Redis failed. An overlap is known when it ends, a trust window later at most.
func (g *g9) finish() {
	for _, other := range g.safety {
		for _, r := range g.judged {
			for _, at := range other.when {
				if at >= r.injection.start && at <= r.back+2*int64(g.w.TTL) {
					g.breach(breach{from: at, to: at, by: r.injection},
						"%s was broken at %s, when Redis failed or had just returned (%s)", other.v.ID, clock(at), r.injection)
					break
				}
			}
		}
	}
}

func (g *g9) healed(inj *injection) {
	if inj.ofRedis() {
		g.back(inj)
	}
	if g.asserted.g != nil {
		g.asserted.healed(inj)
	}
}

// back is the return from one fault, if it was not seen yet.
func (g *g9) back(inj *injection) {
	for i, f := range g.failing {
		if f == inj {
			g.failing = append(g.failing[:i], g.failing[i+1:]...)
			g.returned(inj)
			return
		}
	}
}

func (g *g9) event(e *history.Event) {
	g.asserted.event(e)
	switch e.Kind {
	case history.RedisUp:
		failing := g.failing
		g.failing = nil
		for _, inj := range failing {
			if inj.did != didPlan || inj.Kind == fault.RedisLoading {
				g.failing = append(g.failing, inj) // up, and answers nothing before it has loaded
				continue
			}
			g.returned(inj)
		}
	case history.Arrived:
		for _, r := range g.recoveries {
			if limit, ok := r.missing[e.Session]; ok {
				delete(r.missing, e.Session)
				g.polled(r, e.Session, limit)
			}
		}
	case history.AcquireFailed:
		g.refused(e)
	case history.SessionRemoved, history.SessionPaused:
		for _, r := range g.recoveries {
			delete(r.missing, e.Session)
		}
	}
}

// refused: an instance that is refused for a quarantine has seen one that lasts, or just did. Its clock stood still while its machine was
// suspended, and after that it acquires nothing for a TTL in any case.
func (g *g9) refused(e *history.Event) {
	_, last := g.w.quarantine()
	for _, p := range g.w.servers.beside { // which of several masters refused is not said
		_, other := p.quarantine(g.w)
		last = max(last, other)
	}
	if last == never || !strings.HasPrefix(e.Reason, quarantined) {
		return
	}
	last += int64(failoverAllowance + g.w.RenewTimeout)
	for _, inj := range g.w.injections {
		if e.T > last && inj.node == g.w.reporter.node && inj.has(fault.BlocksAcquire) {
			r, _ := g.w.reach(inj)
			last = max(last, r.to)
		}
	}
	began := g.w.epoch.until
	if e.T <= last+g.w.stall(began, e.T) {
		return
	}
	subject, who, at, session := g.w.subject, g.w.reporter.who(), e.T, e.Session
	g.w.at(at+g.w.blur(), func() {
		if g.w.epoch.until != began { // the epoch that the node saw was shown later
			return
		}
		g.breach(breach{session: subject, from: at, shown: true}, "at %s %s was refused session %s for a quarantine, but the epoch of Redis' "+
			"data began at %s, and its quarantine was over %d ms before", clock(at), who, session, clock(began), ms(at-began-int64(g.w.TTL)))
	})
}

// returned begins to wait for each session's next poll.
func (g *g9) returned(inj *injection) {
	r := &recovery{injection: inj, back: g.w.now, missing: map[string]int64{}, late: map[string]int64{}}
	for _, t := range g.w.sessions.all {
		if !t.unpaused() {
			continue
		}
		r.missing[t.id] = g.closed(inj)
		if trusted(t) && !g.w.deletedUnknown(t, r.back) { // who may find its key gone, and lose it, asserts nothing
			r.missing[t.id] = g.open()
		}
	}
	if len(r.missing) == 0 {
		return
	}
	if g.w.forgets(inj) {
		g.takesOver(r)
	}
	g.recoveries = append(g.recoveries, r)
	g.watch(r)
}

// takesOver lets a loss of data alone wait for what those before it waited for: they would wait for its quarantine too, and no less long.
func (g *g9) takesOver(r *recovery) {
	for _, before := range g.recoveries {
		for id := range r.missing {
			delete(before.missing, id)
		}
		switch {
		case len(before.missing) > 0:
		case before.limit > 0:
			g.judge(before)
		default: // nothing of it is known, and nothing is left to wait for
			g.close(before)
		}
	}
}

// watch waits for the sessions that are not polled in time.
func (g *g9) watch(r *recovery) {
	g.w.await(func() (promise, bool) {
		limit, last := int64(0), (*session)(nil)
		for _, id := range sortedKeys(r.missing) {
			s := g.w.session(id)
			if limit = max(limit, r.missing[id]); last == nil || g.w.leftBehind(s).to > g.w.leftBehind(last).to {
				last = s
			}
		}
		return g.promise(r, last, limit), !r.over && limit > 0
	}, func(limit int64, excused *injection) {
		if excused != nil {
			r.excused = excused
			clear(r.missing)
		} else {
			r.slowest, r.limit = g.w.now-g.w.availableSince(r.back), limit
		}
		g.judge(r)
	})
}

// promise is that a session is polled again so long after the return. Where nobody was there to poll, it counts from when somebody
// came. What another fault delays may have cost the owner its window: then it is due as if that had been closed.
func (g *g9) promise(r *recovery, s *session, limit int64) promise {
	base := g.w.availableSince(r.back)
	p := promise{from: r.injection.start, base: base, by: base + limit, settle: g.closed(r.injection), session: s, but: r.injection}
	if heard := r.injection.detectedAt; heard != 0 { // the end of its quarantine is known, and is not waited for twice
		p.settle, p.quarantineFrom = g.open(), heard
	}
	return p
}

// ended notes that an instance closed a window itself, because it stops or did not know yet that Redis forgot: nobody takes over in a
// quarantine.
func (g *g9) ended(t *term, how ending) {
	if how != endReleased || t.inst.node == nil {
		return
	}
	for _, r := range g.recoveries {
		if t.inst.node.asked == nil && g.w.now > r.back+int64(g.w.Renew+g.w.RenewTimeout) {
			continue
		}
		limit, ok := r.missing[t.session.id]
		if ok {
			r.missing[t.session.id] = max(limit, g.closed(r.injection))
		}
	}
}

// open is the limit for sessions of which a window is open when Redis is back.
func (g *g9) open() int64 { return int64(g.w.Renew + g.w.Poll + failoverAllowance) }

// closed is that for the others, which wait for the end of a quarantine if the fault is followed by one.
func (g *g9) closed(inj *injection) int64 {
	if g.w.forgets(inj) {
		return g.open() + int64(g.w.TTL)
	}
	return g.open()
}

// trusted reports whether an instance trusts its lease of the session now.
func trusted(s *session) bool {
	for _, t := range s.terms {
		if t.believes {
			return true
		}
	}
	return false
}

func (g *g9) polled(r *recovery, session string, limit int64) {
	p := g.promise(r, g.w.session(session), limit)
	took := g.w.now - p.base
	until, by := g.w.due(p)
	switch {
	case g.within(took, limit, p.base):
	case g.w.wide(p, until):
		r.excused = by
	default:
		if by != nil && until-p.by >= r.further {
			r.moved, r.further = by, until-p.by
		}
		limit = until - p.base
		if !g.within(took, limit, p.base) {
			r.late[session] = took // reported when all is known
		}
	}
	if r.excused == nil && closer(took, limit, r.slowest, r.limit) {
		r.slowest, r.limit = took, limit
	}
	if len(r.missing) == 0 {
		g.judge(r)
	}
}

// close ends the wait for a recovery. Who goes through the recoveries meanwhile sees them as they were.
func (g *g9) close(r *recovery) {
	r.over = true
	g.recoveries = slices.DeleteFunc(slices.Clone(g.recoveries), func(other *recovery) bool { return other == r })
}

func (g *g9) judge(r *recovery) {
	if r.over || g.w.phase == "end" && len(r.missing) > 0 {
		return
	}
	g.close(r)
	if r.excused != nil && len(r.late) == 0 && len(r.missing) == 0 {
		g.excuse(r.excused)
		return
	}
	g.exercise(string(r.injection.Kind))
	if r.moved != nil {
		g.prolong(r.moved, r.further)
	}
	g.after[string(r.injection.Kind)]++
	if r.limit > 0 {
		g.near(r.slowest, r.limit)
		g.took.add(r.slowest)
	}
	g.judged = append(g.judged, r)
	if ids := sortedKeys(r.late); len(ids) > 0 {
		g.breach(r.breach(g.w.session(ids[0])), "after %s Redis was back at %s, but %d sessions were polled again too late: session %s after "+
			"%d ms", r.injection, clock(r.back), len(ids), ids[0], ms(r.late[ids[0]]))
	}
	if ids := sortedKeys(r.missing); len(ids) > 0 {
		g.breach(r.breach(g.w.session(ids[0])), "after %s Redis was back at %s, but %d sessions were not polled again in time: session %s not "+
			"within %d ms", r.injection, clock(r.back), len(ids), ids[0], ms(r.limit))
	}
}

// breach is that a session was not polled again in time, of those the one that came furthest beyond its limit.
func (r *recovery) breach(s *session) breach {
	return breach{session: s, from: r.back, due: r.back + r.limit, by: r.injection}
}

func (g *g9) verdict() Verdict {
	v := g.hooks.verdict()
	g.nearest(&v)
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("all sessions were polled again after %s", counts(g.after)), v.Detail)
	}
	return v
}
