package check

import (
	"fmt"
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
	worst      int64
	worstLimit int64
	kinds      map[string]int
	judged     []*recovery
}

// recovery is the time after one return of Redis.
type recovery struct {
	strike  *strike
	back    int64
	missing map[string]int64 // session → its limit after back
	late    map[string]int64 // session → how long it took
	slowest int64
	limit   int64 // of the slowest
	over    bool
}

func (g *g9) attach(w *world, v Verdict) {
	v.Limit = ms(int64(w.Renew + w.Poll + failoverAllowance))
	g.hooks.attach(w, v)
	g.kinds = map[string]int{}
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
				g.polled(r, e.Session, e.T-r.back, limit)
			}
		}
	case history.SessionRemoved, history.SessionPaused:
		for _, r := range g.recoveries {
			delete(r.missing, e.Session)
		}
	}
}

// returned begins to wait for each session's next poll.
func (g *g9) returned(s *strike) {
	r := &recovery{strike: s, back: g.w.now, missing: map[string]int64{}, late: map[string]int64{}}
	open := g.open()
	last := int64(0)
	for _, t := range g.w.sessions.all {
		if !t.unpaused() {
			continue
		}
		limit := open
		if g.w.forgets(s) && !trusted(t) {
			limit += int64(g.w.TTL)
		}
		r.missing[t.id] = limit
		last = max(last, limit)
	}
	if len(r.missing) == 0 {
		return
	}
	g.recoveries = append(g.recoveries, r)
	g.w.at(r.back+last+g.w.stall(r.back, r.back+last), func() { g.judge(r) })
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
		if ok && limit == g.open() && g.w.forgets(r.strike) {
			limit += int64(g.w.TTL)
			r.missing[t.session.id] = limit
			g.w.at(r.back+limit+g.w.stall(r.back, r.back+limit), func() { g.judge(r) })
		}
	}
}

// open is the limit for sessions of which a window is open when Redis is back.
func (g *g9) open() int64 { return int64(g.w.Renew + g.w.Poll + failoverAllowance) }

// trusted reports whether an instance trusts its lease of the session now.
func trusted(s *session) bool {
	for _, t := range s.terms {
		if t.believes {
			return true
		}
	}
	return false
}

func (g *g9) polled(r *recovery, session string, took, limit int64) {
	if closer(took, limit, r.slowest, r.limit) {
		r.slowest, r.limit = took, limit
	}
	if !g.within(took, limit, r.back) {
		r.late[session] = took // told when all is known
	}
	if len(r.missing) == 0 {
		g.judge(r)
	}
}

func (g *g9) judge(r *recovery) {
	if r.over || g.w.phase == "end" && len(r.missing) > 0 && g.w.now-r.back < r.limit {
		return
	}
	for _, limit := range r.missing {
		if g.w.now < r.back+limit {
			return // it is judged again then
		}
	}
	r.over = true
	for i, other := range g.recoveries {
		if other == r {
			g.recoveries = append(g.recoveries[:i], g.recoveries[i+1:]...)
			break
		}
	}
	if g.w.deserted(r.back) {
		return // nobody was there to poll
	}
	delayed := g.w.delayed
	if g.w.forgets(r.strike) { // open terms are had back in a quarantine, and the limit of closed ones contains one
		delayed = g.w.struckBetween
	}
	if by := delayed(r.strike.start, g.w.now, r.strike); by != nil {
		g.excuse(by)
		return
	}
	g.exercised++
	g.kinds[string(r.strike.Kind)]++
	if closer(r.slowest, r.limit, g.worst, g.worstLimit) {
		g.worst, g.worstLimit = r.slowest, r.limit
	}
	g.judged = append(g.judged, r)
	if ids := sortedKeys(r.late); len(ids) > 0 {
		g.broke(g.w.session(ids[0]), "after %s Redis was back at %s, but %d sessions were polled again too late: session %s after "+
			"%d ms", r.strike, clock(r.back), len(ids), ids[0], ms(r.late[ids[0]]))
	}
	if ids := sortedKeys(r.missing); len(ids) > 0 {
		g.worst, g.worstLimit = g.w.now-r.back, r.missing[ids[0]]
		g.broke(g.w.session(ids[0]), "after %s Redis was back at %s, but %d sessions were not polled again in time: session %s not "+
			"within %d ms", r.strike, clock(r.back), len(ids), ids[0], ms(r.missing[ids[0]]))
	}
}

// closer reports whether the first time comes closer to its limit (or further beyond it) than the second.
func closer(took, limit, than, thanLimit int64) bool {
	return thanLimit == 0 || ms(took)*ms(thanLimit) > ms(than)*ms(limit)
}

func (g *g9) verdict() Verdict {
	v := g.hooks.verdict()
	if g.worstLimit > 0 {
		v.Value, v.Limit = ms(g.worst), ms(g.worstLimit)
	}
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("all sessions were polled again after %s", counts(g.kinds)), v.Detail)
	}
	return v
}
