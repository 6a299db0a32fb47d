package check

import (
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// g5 judges that a crashed owner's sessions are owned again within TTL + 250 ms of the crash. If Redis executed the victim's last
// command later, the limit counts from there. Most crashes come some time after a renewal, so the lease ends earlier than a TTL
// after the crash. A limit from the crash alone would therefore not show slow waiters. So if Redis was watched, the 250 ms also
// count from the end of the lease, or of the owner's heartbeat if that is later: waiters read the leases of instances without a
// heartbeat.
type g5 struct {
	hooks
	crashes int
	took    *measure.Times
	lags    *measure.Times // from the end of the lease
	limit   int64

	partitions bool // owners that are cut off or frozen count as crashed (E4)
}

// takeover tracks a session whose owner crashed or was cut off, until another instance acquires it.
type takeover struct {
	*wait
	session  *session
	victim   *term
	crash    *injection
	alive    bool    // its owner was cut off only
	at       int64   // time of the crash
	base     int64   // start of the limit, once the session can be taken
	ends     int64   // when the lease and its owner's heartbeat expire, as Redis showed; 0: unknown
	grantees []*node // nodes that Redis has granted it to since
	taker    *instance
}

func (g *g5) attach(w *world, v Verdict) {
	v.Limit = (w.TTL + FailoverAllowance).Milliseconds()
	g.hooks.attach(w, v)
	g.limit = int64(w.TTL + FailoverAllowance)
	g.took, g.lags = g.measures("failover"), g.measures("after the lease's end")
}

// ended sees a crash, which ends the victim's open terms.
func (g *g5) ended(t *term, how ending) {
	if how != endExited || !t.inst.killed || t.passed || g.w.phase == "end" {
		return
	}
	crash := t.inst.killer
	if crash == nil {
		return // no fault killed it
	}
	s := t.session
	if !s.unpaused() && s.added {
		return
	}
	g.close(s)
	to := &takeover{session: s, victim: t, crash: crash, at: g.w.now, base: g.w.now}
	if k := s.granted; k != nil && k.holder == t.inst.id && crash.Kind.Scope() == fault.ScopeNode {
		to.ends = max(k.until, g.w.rest.beats[t.inst.id])
	}
	g.watch(to)
}

func (g *g5) injected(inj *injection) {
	switch {
	case inj.Has(fault.Kills):
		g.crashes++
	case !g.partitions || inj.node == nil || inj.node.current == nil || !inj.Has(fault.Partitions|fault.Freezes):
	default:
		for _, id := range inj.node.current.leases() {
			g.cutOff(inj.node.current.held[id], inj)
		}
	}
}

// cutOff begins a takeover from an owner whose requests no longer reach Redis.
func (g *g5) cutOff(t *term, inj *injection) {
	if t.session.pending() != nil || t.passed {
		return // a takeover is pending already, or has happened
	}
	g.crashes++
	to := &takeover{session: t.session, victim: t, crash: inj, alive: true, at: g.w.now, base: g.w.now}
	if k := t.session.granted; k != nil && k.holder == t.inst.id {
		to.ends = k.until
	}
	g.watch(to)
}

// healed closes the takeovers from owners whose requests reach Redis again in time: these owners kept their leases.
func (g *g5) healed(inj *injection) {
	if !g.partitions {
		return
	}
	for _, s := range g.w.fleet.sorted() {
		if to := s.pending(); to != nil && to.crash == inj && to.alive && to.limit == 0 {
			g.close(s)
		}
	}
}

func (g *g5) watch(to *takeover) {
	to.session.takeover = to
	to.wait = g.expect(wait{
		now: func() promise { return g.promise(to) }, took: g.took, late: func(took, limit int64) { g.late(to, took, limit) },
	})
}

func (s *session) pending() *takeover {
	if s.takeover != nil && !s.takeover.over {
		return s.takeover
	}
	return nil
}

func (g *g5) close(s *session) {
	if s.takeover != nil {
		s.takeover.over = true
	}
}

// promise returns by when an instance must acquire the session. Leases that Redis granted to instances that are gone must expire first.
func (g *g5) promise(to *takeover) promise {
	base, limit := to.base, g.limit
	if heir := g.heirSince(to); heir+int64(FailoverAllowance) > base+limit {
		base, limit = heir, int64(FailoverAllowance)
	}
	p := promise{
		from: to.at, base: base, by: base + limit, settle: g.w.settleAfter(), anybody: true, grantees: to.grantees, but: to.crash,
	}
	if len(to.grantees) > 0 {
		p.session = to.session
	}
	return p
}

// late reports a takeover that came too late, or not at all.
func (g *g5) late(to *takeover, took, limit int64) {
	base, since := g.w.now-took, "the "+string(to.crash.Kind)
	if base != to.at {
		since = clock(base)
	}
	b := breach{session: to.session, from: base, size: took, due: base + limit, by: to.crash}
	if to.taker == nil {
		g.breach(b, "nobody acquired session %s any more, %d ms after %s: its owner %s %s%s", to.session.id, ms(took), since,
			to.victim.inst.who(), to.fate(), inBrackets(to.victim.fence))
		return
	}
	g.breach(b, "session %s was acquired by %s at %s, %d ms after %s: its owner %s %s", to.session.id, to.taker.who(), clock(g.w.now),
		ms(took), since, to.victim.inst.who(), to.fate())
}

// lagged judges whether a waiting instance noticed the end of a lease in time. It judges no takeover that another fault may have delayed:
// after an earlier fault, an instance may be at its quota, and does not wait for the lease.
func (g *g5) lagged(to *takeover) {
	ends := to.ends
	if len(to.grantees) > 0 {
		ends = max(ends, g.w.fleet.leftBehind(to.session).to)
	}
	lag := g.w.now - ends
	if to.ends == 0 || lag <= 0 {
		return
	}
	g.lags.Add(lag)
	if g.w.faults.delayed(to.at, g.w.now, to.crash) == nil && !g.within(lag, int64(FailoverAllowance), ends) {
		g.near(lag, int64(FailoverAllowance))
		g.breach(breach{session: to.session, from: to.base, size: g.w.now - to.base, due: ends + int64(FailoverAllowance), by: to.crash},
			"session %s was acquired by %s at %s, %d ms after its lease and its owner's heartbeat had ended at %s: its owner %s %s",
			to.session.id, to.taker.who(), clock(g.w.now), ms(lag), clock(ends), to.victim.inst.who(), to.fate())
	}
}

func (to *takeover) fate() string {
	if to.alive {
		return "was cut off (" + string(to.crash.Kind) + ") at " + clock(to.at)
	}
	return "crashed at " + clock(to.at)
}

// heirSince returns when the first instance came that can take the session; now if there is none. If this is after the limit, the
// 250 ms of a takeover count from this time.
func (g *g5) heirSince(to *takeover) int64 {
	if to.alive && g.w.fleet.alive == 1 { // its owner is the only one
		return g.w.now
	}
	return max(g.w.fleet.availableSince(to.at), g.w.fleet.candidateSince(to.victim.inst))
}

func (g *g5) event(e *history.Event) {
	if i := g.w.fleet.instances[e.Instance]; e.Kind == history.RedisBeat && i != nil && i.gone {
		g.beat(i, e.Until)
	}
	if g.w.subject == nil || g.w.subject.pending() == nil {
		return
	}
	to := g.w.subject.takeover
	switch e.Kind {
	case history.RedisExtended: // the victim's own command, held back by a partition, arrives after its death
		if e.Instance == to.victim.inst.id && g.w.allows(lateCommands) {
			to.base, to.ends = e.T, max(to.ends, e.Until)
		}
	case history.RedisGranted:
		g.granted(to, e)
	case history.SessionRemoved, history.SessionPaused:
		g.close(g.w.subject)
	}
}

// granted handles a grant of the session while its takeover is pending.
func (g *g5) granted(to *takeover, e *history.Event) {
	switch i := g.w.fleet.instances[e.Instance]; {
	case e.Instance == to.victim.inst.id:
		if g.w.allows(lateCommands) {
			to.base = e.T
		}
	case i != nil && i.node != nil:
		if g.w.faults.under(i.node, fault.Silences) && g.w.allows(deafGrantees) { // it may not hear of the grant
			to.base, to.ends = e.T, 0
		}
		to.grantees = append(to.grantees, i.node)
	}
}

// beat handles a heartbeat of a dead instance that Redis executes after the death.
func (g *g5) beat(i *instance, until int64) {
	for _, s := range g.w.fleet.sessions {
		if to := s.pending(); to != nil && to.victim.inst == i && g.w.allows(lateBeats) {
			if to.ends != 0 {
				to.ends = max(to.ends, until)
			}
			to.base = g.w.now
		}
	}
}

func (g *g5) began(t *term) {
	if to := t.session.pending(); to != nil {
		to.taker = t.inst
		if took, _, stands := to.came(); stands == inTime && took == g.w.now-to.base {
			g.lagged(to)
		}
	}
}

func (g *g5) finish() {
	g.hooks.finish()
	falls := "crashes"
	if g.partitions {
		falls = "crashes and partitions"
	}
	if g.took.N > 0 {
		g.note("%d takeovers after %d %s: %s", g.took.N, g.crashes, falls, g.took)
	}
	if g.lags.N > 0 {
		g.note("after the lease's end: %s", g.lags)
	}
}
