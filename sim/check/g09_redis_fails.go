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
	safety     []*hooks  // G1 to G3
	failing    []*strike // of Redis, not yet returned from
	recoveries []*recovery
	after      map[string]int // recoveries judged, by kind of fault
	took       *times
	judged     []*recovery
}

// recovery is the time after one return of Redis.
type recovery struct {
	strike  *strike
	back    int64
	missing map[string]int64 // session → its limit after back
	late    map[string]int64 // session → how long it took
	slowest int64
	limit   int64   // of the slowest
	moved   *strike // the fault that moved a limit furthest; nil: none did
	further int64   // how far
	excused *strike // a fault that moved one too far to judge it
	over    bool
}

func (g *g9) attach(w *world, v Verdict) {
	v.Limit = ms(int64(w.Renew + w.Poll + failoverAllowance))
	g.hooks.attach(w, v)
	g.after, g.took = map[string]int{}, g.measures("recovery")
}

func (g *g9) struck(s *strike) {
	if s.Kind.Has(fault.Deletes) { // its owner loses it by another cause
		for _, r := range g.recoveries {
			delete(r.missing, s.session)
		}
	}
	if !s.ofRedis() {
		return
	}
	switch {
	case s.Kind.Has(fault.Instant):
		g.returned(s)
	case s.Kind == fault.RedisSlow:
		g.failing = append(g.failing, s)
		g.w.at(s.start+s.Ms*int64(time.Millisecond), func() { g.back(s) })
	default:
		g.failing = append(g.failing, s)
	}
}

// finish holds G1 to G3 against the times in which Redis failed and returned. An overlap is known at its end only, which is
// at most a trust window later.
func (g *g9) finish() {
	for _, other := range g.safety {
		for _, r := range g.judged {
			for _, at := range other.when {
				if at >= r.strike.start && at <= r.back+2*int64(g.w.TTL) {
					g.broke(nil, "%s was broken at %s, when Redis failed or had just returned (%s)", other.v.ID, clock(at), r.strike)
					break
				}
			}
		}
	}
}

func (g *g9) healed(s *strike) {
	if s.ofRedis() {
		g.back(s)
	}
}

// back is the return from one fault, if it was not seen yet.
func (g *g9) back(s *strike) {
	for i, f := range g.failing {
		if f == s {
			g.failing = append(g.failing[:i], g.failing[i+1:]...)
			g.returned(s)
			return
		}
	}
}

func (g *g9) event(e *history.Event) {
	switch e.Kind {
	case history.RedisUp:
		failing := g.failing
		g.failing = nil
		for _, s := range failing {
			if s.Kind == fault.RedisLoading {
				g.failing = append(g.failing, s) // up, and answers nothing before it has loaded
				continue
			}
			g.returned(s)
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

// refused: who is refused for a quarantine was told of one that lasts, or was a moment before. The clock by which it waits stood still
// while its machine was suspended, and after that it acquires nothing for a TTL in any case.
func (g *g9) refused(e *history.Event) {
	_, last := g.w.quarantine()
	if last == never || !strings.HasPrefix(e.Reason, quarantined) {
		return
	}
	last += int64(failoverAllowance + g.w.RenewTimeout)
	for _, s := range g.w.strikes {
		if e.T > last && s.node == g.w.speaker.node && s.Kind.Has(fault.Bars) {
			r, _ := g.w.reach(s)
			last = max(last, r.to)
		}
	}
	if began := g.w.epoch.until; e.T > last+g.w.stall(began, e.T) {
		g.broke(g.w.subject, "at %s %s was refused session %s for a quarantine, but the epoch of Redis' data began at %s, and its quarantine "+
			"was over %d ms before", clock(e.T), g.w.speaker.who(), e.Session, clock(began), ms(e.T-began-int64(g.w.TTL)))
	}
}

// returned begins to wait for each session's next poll.
func (g *g9) returned(s *strike) {
	r := &recovery{strike: s, back: g.w.now, missing: map[string]int64{}, late: map[string]int64{}}
	for _, t := range g.w.sessions.all {
		if !t.unpaused() {
			continue
		}
		r.missing[t.id] = g.closed(s)
		if trusted(t) && !g.w.deletedUnknown(t, r.back) { // who may find its key gone, and lose it, asserts nothing
			r.missing[t.id] = g.open()
		}
	}
	if len(r.missing) == 0 {
		return
	}
	if g.w.forgets(s) {
		g.takesOver(r)
	}
	g.recoveries = append(g.recoveries, r)
	g.watch(r)
}

// takesOver lets a loss of data alone wait for what those before it waited for: they would wait for its quarantine too, and no less long.
func (g *g9) takesOver(r *recovery) {
	for _, before := range slices.Clone(g.recoveries) {
		for id := range r.missing {
			delete(before.missing, id)
		}
		switch {
		case len(before.missing) > 0:
		case before.limit > 0:
			g.judge(before)
		default: // nothing of it is known, and nothing is left to wait for
			before.over = true
			g.recoveries = slices.DeleteFunc(g.recoveries, func(r *recovery) bool { return r == before })
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
	}, func(limit int64, excused *strike) {
		if excused != nil {
			r.excused = excused
			clear(r.missing)
		} else {
			r.slowest, r.limit = g.w.now-g.w.manned(r.back), limit
		}
		g.judge(r)
	})
}

// promise is that a session is polled again so long after the return. Where nobody was there to poll, it counts from when somebody
// came. What another fault delays may have cost the owner its window: then it is due as if that had been closed.
func (g *g9) promise(r *recovery, s *session, limit int64) promise {
	base := g.w.manned(r.back)
	p := promise{from: r.strike.start, base: base, by: base + limit, settle: g.closed(r.strike), session: s, but: r.strike}
	if heard := r.strike.heard; heard != 0 { // the end of its quarantine is known, and is not waited for twice
		p.settle, p.heard = g.open(), heard
	}
	return p
}

// ended takes note that an instance closed a window itself, because it was asked to stop or did not know yet that Redis had
// forgotten: nobody takes anything in a quarantine.
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
			r.missing[t.session.id] = max(limit, g.closed(r.strike))
		}
	}
}

// open is the limit for sessions of which a window is open when Redis is back.
func (g *g9) open() int64 { return int64(g.w.Renew + g.w.Poll + failoverAllowance) }

// closed is that for the others, which wait for the end of a quarantine if the fault is followed by one.
func (g *g9) closed(s *strike) int64 {
	if g.w.forgets(s) {
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
			r.late[session] = took // told when all is known
		}
	}
	if r.excused == nil && closer(took, limit, r.slowest, r.limit) {
		r.slowest, r.limit = took, limit
	}
	if len(r.missing) == 0 {
		g.judge(r)
	}
}

func (g *g9) judge(r *recovery) {
	if r.over || g.w.phase == "end" && len(r.missing) > 0 {
		return
	}
	r.over = true
	for i, other := range g.recoveries {
		if other == r {
			g.recoveries = append(g.recoveries[:i], g.recoveries[i+1:]...)
			break
		}
	}
	if r.excused != nil && len(r.late) == 0 && len(r.missing) == 0 {
		g.excuse(r.excused)
		return
	}
	g.exercise(string(r.strike.Kind))
	if r.moved != nil {
		g.prolong(r.moved, r.further)
	}
	g.after[string(r.strike.Kind)]++
	if r.limit > 0 {
		g.near(r.slowest, r.limit)
		g.took.add(r.slowest)
	}
	g.judged = append(g.judged, r)
	if ids := sortedKeys(r.late); len(ids) > 0 {
		g.breach(r.breach(g.w.session(ids[0])), "after %s Redis was back at %s, but %d sessions were polled again too late: session %s after "+
			"%d ms", r.strike, clock(r.back), len(ids), ids[0], ms(r.late[ids[0]]))
	}
	if ids := sortedKeys(r.missing); len(ids) > 0 {
		g.breach(r.breach(g.w.session(ids[0])), "after %s Redis was back at %s, but %d sessions were not polled again in time: session %s not "+
			"within %d ms", r.strike, clock(r.back), len(ids), ids[0], ms(r.limit))
	}
}

// breach is that a session was not polled again in time, of those the one that came furthest beyond its limit.
func (r *recovery) breach(s *session) breach {
	return breach{session: s, from: r.back, due: r.back + r.limit, by: r.strike}
}

func (g *g9) verdict() Verdict {
	v := g.hooks.verdict()
	g.nearest(&v)
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("all sessions were polled again after %s", counts(g.after)), v.Detail)
	}
	return v
}
