package check

import (
	"fmt"
	"math"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g5: a crashed owner's sessions are owned again within TTL + 250 ms of the crash, or of the victim's last command that
// Redis executed if that is later. A crash mostly comes some time after the victim's last renewal, which would leave slow
// waiters as much time; so where Redis was watched, the 250 ms are also held against the end of the lease itself, or of its
// owner's heartbeat where that ends later, as it does when answers come late: waiters read the leases of who beats no more.
type g5 struct {
	hooks
	crashes int
	took    *times
	lags    *times // after the end of the lease
	limit   int64
	slow    bool // a break was one of time after the crash

	partitions bool // owners that are cut off, or stopped, are judged as crashed ones are (E4)
}

// orphan is a session whose owner crashed, or was cut off.
type orphan struct {
	session *session
	victim  *term
	crash   *strike
	alive   bool    // its owner is only cut off
	at      int64   // of the crash
	base    int64   // what the limit counts from
	ends    int64   // when the lease and its owner's heartbeat end by themselves, as Redis showed; 0: not known
	why     string  // what base is, if it is not the crash
	heirs   []*node // to whom Redis granted it since
	over    bool
	late    int64 // the limit that has passed; 0: none
}

func (g *g5) attach(w *world, v Verdict) {
	v.Limit = (w.TTL + failoverAllowance).Milliseconds()
	g.hooks.attach(w, v)
	g.limit = int64(w.TTL + failoverAllowance)
	g.took, g.lags = g.measures("failover"), g.measures("after the lease's end")
}

// ended sees the crash: the victim's open terms end with its process.
func (g *g5) ended(t *term, how ending) {
	if how != endExited || !t.inst.killed || t.passed || g.w.phase == "end" {
		return
	}
	crash := t.inst.node.killer
	if crash == nil {
		return // it died of something else
	}
	s := t.session
	if !s.unpaused() && s.added {
		return
	}
	if old := s.orphan; old != nil {
		old.over = true
	}
	o := &orphan{session: s, victim: t, crash: crash, at: g.w.now, base: g.w.now}
	if k := s.granted; k != nil && k.holder == t.inst.id && crash.Kind.Scope() == fault.ScopeNode {
		o.ends = max(k.until, g.w.rest.beats[t.inst.id])
	}
	s.orphan = o
	g.watch(o)
}

func (g *g5) struck(s *strike) {
	switch {
	case s.Kind.Has(fault.Kills):
		g.crashes++
	case !g.partitions || s.node == nil || s.node.current == nil || !s.Kind.Has(silent):
	default:
		for _, id := range s.node.current.sorted() {
			g.cutOff(s.node.current.held[id], s)
		}
	}
}

// cutOff begins to wait for who takes over from an owner that Redis does not hear any more.
func (g *g5) cutOff(t *term, s *strike) {
	if t.session.orphan != nil || t.passed {
		return // it is orphaned already
	}
	g.crashes++
	o := &orphan{session: t.session, victim: t, crash: s, alive: true, at: g.w.now, base: g.w.now}
	if k := t.session.granted; k != nil && k.holder == t.inst.id {
		o.ends = k.until
	}
	t.session.orphan = o
	g.watch(o)
}

// healed: an owner that is heard again in time has nothing to lose.
func (g *g5) healed(s *strike) {
	if !g.partitions {
		return
	}
	for _, orphaned := range g.w.sessions.sorted() {
		if o := orphaned.orphan; o != nil && o.crash == s && o.alive && o.late == 0 {
			g.close(o)
		}
	}
}

// watch finds the orphan that nobody takes in time.
func (g *g5) watch(o *orphan) {
	g.w.await(func() (promise, bool) {
		g.candidates(o)
		if !o.over && (g.w.alive == 0 || o.alive && g.w.alive == 1) { // and that one is its owner
			o.ends = 0
			g.rebase(o, g.w.now, "no instance was there to take it before")
		}
		return g.promise(o), !o.over
	}, func(limit int64, excused *strike) {
		if excused == nil {
			o.late = limit // it is broken; how late it will be is seen when somebody takes it
			return
		}
		g.close(o)
		g.excuse(excused)
	})
}

// promise is that somebody takes the orphan. What an heir that is gone was granted ends first.
func (g *g5) promise(o *orphan) promise {
	p := promise{from: o.at, base: o.base, by: o.base + g.limit, settle: g.w.settleAfter(), anybody: true, heirs: o.heirs, but: o.crash}
	if len(o.heirs) > 0 {
		p.session = o.session
	}
	return p
}

// lagging reports whether whoever waits for a lease noticed its end too late. It is judged where no other fault reached into the
// takeover: who has room for a lease, and so waits for it, may follow from what came long before it ended.
func (g *g5) lagging(o *orphan) bool {
	ends := o.ends
	if len(o.heirs) > 0 {
		ends = max(ends, g.w.leftBehind(o.session).to)
	}
	lag := g.w.now - ends
	if o.ends == 0 || lag <= 0 {
		return false
	}
	g.lags.add(lag)
	return g.w.delayed(o.at, g.w.now, o.crash) == nil && !g.within(lag, int64(failoverAllowance), ends)
}

// fell says what befell the owner.
func (o *orphan) fell() string {
	if o.alive {
		return "was cut off (" + string(o.crash.Kind) + ")"
	}
	return "crashed"
}

func (o *orphan) since() string {
	if o.why == "" {
		return "the " + string(o.crash.Kind)
	}
	return fmt.Sprintf("%s (%s)", clock(o.base), o.why)
}

// candidates: members of an election take part some time after they came.
func (g *g5) candidates(o *orphan) {
	if g.w.startDelay() == 0 || o.over {
		return
	}
	first := int64(math.MaxInt64)
	for _, i := range g.w.instances {
		if i.ready && !i.gone && i != o.victim.inst {
			first = min(first, i.since)
		}
	}
	if from := first + g.w.startDelay(); first != math.MaxInt64 && from > o.base {
		o.ends = 0
		g.rebase(o, from, "the first of the others had just come, and waits before it takes part")
	}
}

func (g *g5) rebase(o *orphan, at int64, why string) {
	if at > o.base {
		o.base, o.why = at, why
	}
}

func (g *g5) close(o *orphan) {
	o.over = true
	if o.session.orphan == o {
		o.session.orphan = nil
	}
}

func (g *g5) event(e *history.Event) {
	if e.Kind == history.Ready && g.w.peopled == g.w.now { // the first after a time without any
		for _, s := range g.w.sessions.all {
			if o := s.orphan; o != nil {
				o.ends = 0
				g.rebase(o, g.w.now+int64(failoverAllowance)-g.limit, "no instance was there to take it before")
			}
		}
	}
	if i := g.w.instances[e.Instance]; e.Kind == history.RedisBeat && i != nil && i.gone {
		g.beat(i, e.Until)
	}
	if g.w.subject == nil || g.w.subject.orphan == nil {
		return
	}
	o := g.w.subject.orphan
	switch e.Kind {
	case history.RedisExtended: // the victim's own bytes, held back by a partition, arrive after its death
		if e.Instance == o.victim.inst.id {
			g.rebase(o, e.T, "the victim's last command that Redis executed")
			o.ends = max(o.ends, e.Until)
		}
	case history.RedisGranted:
		i := g.w.instances[e.Instance]
		switch {
		case e.Instance == o.victim.inst.id:
			g.rebase(o, e.T, "the victim's last command that Redis executed")
			return
		case i == nil:
			return
		case g.silenced(i):
			o.ends = 0
			g.rebase(o, e.T, "it went to "+i.who()+", which a fault had silenced")
		}
		o.heirs = append(o.heirs, i.node)
	case history.SessionRemoved, history.SessionPaused:
		g.close(o)
	}
}

// beat is a heartbeat of a dead instance that was under way when it died.
func (g *g5) beat(i *instance, until int64) {
	for _, s := range g.w.sessions.all {
		if o := s.orphan; o != nil && o.victim.inst == i {
			if o.ends != 0 {
				o.ends = max(o.ends, until)
			}
			g.rebase(o, g.w.now, "the victim's last heartbeat that Redis executed")
		}
	}
}

// silenced reports whether a fault keeps the instance from hearing that it was granted something.
func (g *g5) silenced(i *instance) bool {
	for _, s := range g.w.open {
		if s.open && s.silences() && s.node != nil && s.node == i.node {
			return true
		}
	}
	return false
}

func (g *g5) began(t *term) {
	o := t.session.orphan
	if o == nil {
		return
	}
	g.candidates(o)
	g.close(o)
	stands, limit := tooLate, o.late
	if o.late > 0 {
		g.exercise(string(o.crash.Kind))
		g.near(g.w.now-o.base, o.late)
	} else if limit, stands = g.held(g.promise(o)); stands == unjudged {
		return
	}
	took := g.w.now - o.base
	g.took.add(took)
	lags := g.lagging(o)
	switch {
	case stands == tooLate:
		g.slow = true
		g.breach(o.breach(took, o.base+limit),
			"session %s was acquired by %s at %s, %d ms after %s: its owner %s %s at %s", o.session.id,
			t.inst.who(), clock(t.since), ms(took), o.since(), o.victim.inst.who(), o.fell(), clock(o.at))
	case lags:
		g.breach(o.breach(took, o.ends+int64(failoverAllowance)),
			"session %s was acquired by %s at %s, %d ms after its lease and its owner's heartbeat had ended at %s: its owner %s %s at %s",
			o.session.id, t.inst.who(), clock(t.since), ms(g.w.now-o.ends), clock(o.ends), o.victim.inst.who(), o.fell(), clock(o.at))
	}
}

// finish names those that nobody took at all.
func (g *g5) finish() {
	for _, s := range g.w.sessions.sorted() {
		if o := s.orphan; o != nil && o.late > 0 {
			g.exercise(string(o.crash.Kind))
			g.slow = true
			g.took.add(g.w.now - o.base)
			g.near(g.w.now-o.base, o.late)
			g.breach(o.breach(g.w.now-o.base, o.base+o.late),
				"nobody acquired session %s any more, %d ms after %s: its owner %s %s at %s%s", s.id,
				ms(g.w.now-o.base), o.since(), o.victim.inst.who(), o.fell(), clock(o.at), inBrackets(o.victim.fence))
		}
	}
}

func (g *g5) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = ms(g.took.max)
	g.nearest(&v)
	if v.Verdict == Fail && !g.slow {
		v.Value, v.Limit = ms(g.lags.max), failoverAllowance.Milliseconds()
	}
	if g.exercised > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d takeovers after %d %s: %s", g.took.n, g.crashes, g.fall(), g.took))
	}
	if g.lags.n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("after the lease's end: %s", g.lags))
	}
	return v
}

// breach is that it was taken too late: it was due before.
func (o *orphan) breach(took, due int64) breach {
	return breach{session: o.session, from: o.base, size: took, due: due, by: o.crash}
}

func (g *g5) fall() string {
	if g.partitions {
		return "crashes and partitions"
	}
	return "crashes"
}
