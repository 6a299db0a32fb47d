package check

import (
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// g9 judges that G1 to G3 hold while Redis fails, and that every session is polled again in time: within one renewal interval, one poll
// interval and 250 ms of Redis' return. If trust windows had closed and a quarantine runs, the limit counts from its end.
type g9 struct {
	hooks
	safety   []*hooks     // G1 to G3
	failing  []*injection // faults of Redis that are not over
	returns  []*comeback
	took     *measure.Times
	asserted asserted
}

// comeback is one return of Redis.
type comeback struct {
	injection *injection
	back      int64
	judged    bool // for at least one session
}

// recovery is the wait for the poll of one session after a return of Redis.
type recovery struct {
	*wait
	*comeback
	open bool // its owner has trusted it since then
}

func (g *g9) attach(w *world, v Verdict) {
	v.Limit = ms(int64(w.Renew + w.Poll + FailoverAllowance))
	g.hooks.attach(w, v)
	g.took = g.measures("recovery")
	g.asserted = asserted{g: g, waits: map[*term]*assertion{}, took: g.measures("re-assertion")}
}

func (g *g9) injected(inj *injection) {
	if inj.Has(fault.Deletes) { // its owner loses it for another cause
		g.drop(g.w.fleet.byID[inj.session])
	}
	switch {
	case !inj.ofRedis():
	case inj.did == didLife || inj.did == didPlan && inj.Has(fault.Instant):
		g.returned(inj)
	default:
		g.failing = append(g.failing, inj)
		if inj.did == didPlan && inj.Kind == fault.RedisSlow {
			g.w.at(inj.From+inj.Ms*int64(time.Millisecond), func() { g.back(inj) })
		}
	}
}

func (g *g9) healed(inj *injection) {
	if inj.ofRedis() {
		g.back(inj)
	}
	g.asserted.healed(inj)
}

// back ends the fault, unless its end has been seen.
func (g *g9) back(inj *injection) {
	if i := slices.Index(g.failing, inj); i >= 0 {
		g.failing = slices.Delete(g.failing, i, i+1)
		g.returned(inj)
	}
}

func (g *g9) event(e *history.Event) {
	g.asserted.event(e)
	switch e.Kind {
	case history.RedisUp:
		for _, inj := range slices.Clone(g.failing) {
			if inj.did == didPlan && inj.Kind != fault.RedisLoading { // the ends of the others come apart
				g.back(inj)
			}
		}
	case history.Arrived:
		g.polled(g.w.subject)
	case history.AcquireFailed:
		g.refused(e)
	case history.Released:
		g.givenUp(e)
	case history.SessionRemoved, history.SessionPaused:
		g.drop(g.w.subject)
	}
}

// refused judges a request that Redis refused because of a quarantine. The quarantine must last or have just ended. An instance
// whose machine was suspended acquires nothing for a TTL afterwards, because its clock stood still.
func (g *g9) refused(e *history.Event) {
	_, last := g.w.servers.epoch.quarantine()
	for _, p := range g.w.servers.beside { // the message does not say which of several masters refused
		_, other := p.quarantine()
		last = max(last, other)
	}
	if last == never || !strings.HasPrefix(e.Reason, quarantined) {
		return
	}
	last += int64(FailoverAllowance + g.w.RenewTimeout)
	for _, inj := range g.w.faults.all {
		if e.T > last && inj.node == g.w.reporter.node && inj.Has(fault.BlocksAcquire) && g.w.allows(suspensions) {
			r, _ := g.w.faults.reach(inj)
			last = max(last, r.to)
		}
	}
	began := g.w.servers.epoch.until
	if e.T <= last+g.w.host.stall(began, e.T) {
		return
	}
	subject, who, at, session := g.w.subject, g.w.reporter.who(), e.T, e.Session
	g.w.at(at+g.w.blur(), func() {
		if g.w.servers.epoch.until != began { // the epoch that the node saw was shown later
			return
		}
		g.breach(breach{session: subject, from: at, shown: true}, "at %s %s was refused session %s for a quarantine, but the epoch of Redis' "+
			"data began at %s, and its quarantine was over %d ms before", clock(at), who, session, clock(began), ms(at-began-int64(g.w.TTL)))
	})
}

// returned begins to wait for a poll of each session. A loss of data ends earlier waits, because they would have to wait for its
// quarantine too.
func (g *g9) returned(inj *injection) {
	c := &comeback{injection: inj, back: g.w.now}
	g.returns = append(g.returns, c)
	for _, s := range g.w.fleet.sessions {
		if !s.unpaused() {
			continue
		}
		if g.w.faults.forgets(inj) {
			g.drop(s)
		}
		r := &recovery{comeback: c, open: trusted(s, g.w.now) && !g.w.faults.deletedUnknown(s, c.back)} // else its owner may find its key gone
		r.wait = g.expect(wait{
			now: func() promise { return g.promise(r, s) }, took: g.took,
			missed: func(limit int64) {
				r.judged = true
				g.breach(breach{session: s, from: c.back, due: c.back + limit, by: inj},
					"after %s Redis was back at %s, but session %s was not polled again within %d ms", inj, clock(c.back), s.id, ms(limit))
			},
		})
		s.returns = append(s.returns, r)
	}
}

// givenUp allows for a lease that its owner gave up before it learned that Redis had lost its data: the quarantine keeps it free.
func (g *g9) givenUp(e *history.Event) {
	for _, r := range g.w.subject.returns {
		if g.w.faults.forgets(r.injection) && e.T-r.back <= int64(g.w.RenewTimeout) && g.w.allows(handovers) {
			r.open = false
		}
	}
}

// drop ends the waits for a session.
func (g *g9) drop(s *session) {
	if s == nil {
		return
	}
	for _, r := range s.returns {
		r.over = true
	}
	s.returns = nil
}

// promise returns the promise that a session is polled again. If no instance was there, the limit counts from the arrival of one. If
// another fault delays the poll, the owner may have lost its window, so the limit of a closed window applies.
func (g *g9) promise(r *recovery, s *session) promise {
	open := int64(g.w.Renew + g.w.Poll + FailoverAllowance)
	closed := open
	if g.w.faults.forgets(r.injection) {
		closed += int64(g.w.TTL)
	}
	base, limit := g.w.fleet.availableSince(r.back), closed
	if r.open {
		limit = open
	}
	p := promise{from: r.injection.From, base: base, by: base + limit, settle: closed, session: s, but: r.injection}
	if heard := r.injection.detectedAt; heard != 0 { // the end of the quarantine is known; do not wait for it twice
		p.settle, p.quarantineFrom = open, heard
	}
	return p
}

func trusted(s *session, now int64) bool {
	return slices.ContainsFunc(s.terms, func(t *term) bool { return t.believes(now) })
}

func (g *g9) polled(s *session) {
	for _, r := range s.returns {
		took, limit, stands := r.came()
		if stands == unjudged {
			continue
		}
		r.judged = true
		if stands == tooLate {
			g.breach(breach{session: s, from: r.back, due: r.back + limit, by: r.injection},
				"after %s Redis was back at %s, but session %s was polled again %d ms later (limit %d ms)", r.injection, clock(r.back), s.id, ms(took),
				ms(limit))
		}
	}
	s.returns = nil
}

// finish checks G1 to G3 in the times in which Redis failed. An overlap is recorded when it ends, at most a trust window later.
func (g *g9) finish() {
	for _, other := range g.safety {
		for _, c := range g.returns {
			at := slices.IndexFunc(other.breaks, func(b *breach) bool { return b.at >= c.injection.From && b.at <= c.back+2*int64(g.w.TTL) })
			if c.judged && at >= 0 {
				b := other.breaks[at]
				g.breach(breach{from: b.at, to: b.at, by: c.injection},
					"%s was broken at %s, when Redis failed or had just returned (%s)", other.v.ID, clock(b.at), c.injection)
			}
		}
	}
	after := map[string]int{}
	for _, c := range g.returns {
		if c.judged {
			after[c.injection.name()]++
		}
	}
	if len(after) > 0 {
		g.note("polls were due again after %s", counts(after))
	}
}
