package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g9 judges that G1 to G3 hold while Redis fails, and that every session is polled again in time: within one renewal interval, one poll
// interval and 250 ms of Redis' return. If trust windows had closed and a quarantine runs, the limit counts from its end.
type g9 struct {
	hooks
	safety     []*hooks     // G1 to G3
	failing    []*injection // faults of Redis that are not over
	recoveries []*recovery
	after      map[string]int // judged recoveries, by kind of fault
	took       *times
	judged     []*recovery
	asserted   asserted
}

// recovery tracks the sessions after one return of Redis, until each is polled.
type recovery struct {
	*wait
	injection *injection
	back      int64
	missing   map[string]int64 // limit of each unpolled session, from back
	late      map[string]int64 // time that each late session took
	slowest   int64
	limit     int64
	moved     *injection // fault that moved a limit furthest; nil: none
	further   int64      // how far, in ns
	beyond    *injection // fault that moved a limit too far to judge it
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
	if inj.has(fault.Deletes) { // its owner loses it for another cause
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

// finish checks G1 to G3 in the times in which Redis failed. An overlap is recorded when it ends, at most a trust window later.
func (g *g9) finish() {
	for _, other := range g.safety {
		for _, r := range g.judged {
			for _, b := range other.breaks {
				if at := b.at; at >= r.injection.start && at <= r.back+2*int64(g.w.TTL) {
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

// back ends the fault, unless its end has been seen.
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
				g.failing = append(g.failing, inj) // up, but loading, or not a fault of the plan: its end comes apart
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

// refused judges a request refused for a quarantine, which must last or have just ended. An instance whose machine was suspended acquires
// nothing for a TTL afterwards, because its clock stood still.
func (g *g9) refused(e *history.Event) {
	_, last := g.w.quarantine()
	for _, p := range g.w.servers.beside { // the message does not say which of several masters refused
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

func (g *g9) returned(inj *injection) {
	r := &recovery{injection: inj, back: g.w.now, missing: map[string]int64{}, late: map[string]int64{}}
	for _, t := range g.w.sessions.all {
		if !t.unpaused() {
			continue
		}
		r.missing[t.id] = g.closed(inj)
		if trusted(t) && !g.w.deletedUnknown(t, r.back) { // an owner that may find its key gone asserts nothing
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

// takesOver moves the pending sessions of earlier recoveries to this loss of data, whose quarantine they wait for as well.
func (g *g9) takesOver(r *recovery) {
	for _, before := range g.recoveries {
		for id := range r.missing {
			delete(before.missing, id)
		}
		switch {
		case len(before.missing) > 0:
		case before.limit > 0:
			g.judge(before)
		default: // nothing was judged, and nothing is pending
			g.close(before)
		}
	}
}

func (g *g9) watch(r *recovery) {
	r.wait = g.expect(wait{
		now: func() promise {
			limit, last := int64(0), (*session)(nil)
			for _, id := range sortedKeys(r.missing) {
				s := g.w.session(id)
				if limit = max(limit, r.missing[id]); last == nil || g.w.leftBehind(s).to > g.w.leftBehind(last).to {
					last = s
				}
			}
			return g.promise(r, last, limit)
		},
		pending: func() bool { return len(r.missing) > 0 },
		missed: func(limit int64) {
			r.slowest, r.limit = g.w.now-g.w.availableSince(r.back), limit
			g.judge(r)
		},
		excused: func(by *injection) {
			r.beyond = by
			clear(r.missing)
			g.judge(r)
		},
	})
}

// promise returns the promise that a session is polled again within limit of the return. If no instance was there, the limit counts from
// the arrival of one. If another fault delays the poll, the owner may have lost its window, so the limit of a closed window applies.
func (g *g9) promise(r *recovery, s *session, limit int64) promise {
	base := g.w.availableSince(r.back)
	p := promise{from: r.injection.start, base: base, by: base + limit, settle: g.closed(r.injection), session: s, but: r.injection}
	if heard := r.injection.detectedAt; heard != 0 { // the end of the quarantine is known; do not wait for it twice
		p.settle, p.quarantineFrom = g.open(), heard
	}
	return p
}

// ended handles a release by an instance that stops or has not noticed the loss. No other acquires the lease in a quarantine.
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

// open returns the limit of a session with an open window when Redis returns.
func (g *g9) open() int64 { return int64(g.w.Renew + g.w.Poll + failoverAllowance) }

// closed returns the limit of the other sessions. They wait for the end of a quarantine if the fault causes one.
func (g *g9) closed(inj *injection) int64 {
	if g.w.forgets(inj) {
		return g.open() + int64(g.w.TTL)
	}
	return g.open()
}

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
		r.beyond = by
	default:
		if by != nil && until-p.by >= r.further {
			r.moved, r.further = by, until-p.by
		}
		limit = until - p.base
		if !g.within(took, limit, p.base) {
			r.late[session] = took // reported when all are known
		}
	}
	if r.beyond == nil && closer(took, limit, r.slowest, r.limit) {
		r.slowest, r.limit = took, limit
	}
	if len(r.missing) == 0 {
		g.judge(r)
	}
}

// close ends a recovery. It copies the list, because callers may be iterating over it.
func (g *g9) close(r *recovery) {
	r.over = true
	g.recoveries = slices.DeleteFunc(slices.Clone(g.recoveries), func(other *recovery) bool { return other == r })
}

func (g *g9) judge(r *recovery) {
	if r.over || g.w.phase == "end" && len(r.missing) > 0 {
		return
	}
	g.close(r)
	if r.beyond != nil && len(r.late) == 0 && len(r.missing) == 0 {
		g.excuse(r.beyond)
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
