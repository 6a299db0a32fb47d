package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// i3 judges that every accepted intent reaches a terminal or running state within a stated time, and that no crash loses one. The
// deadline accounts for delays, so i3 judges the storm like the calm. A tuner must serve a session that is RUNNING. A stopped session
// must end, and a session that Redis lost must not be served any more.
type i3 struct {
	intentRule
	took *measure.Times // time until a session was in order again
}

func (g *i3) attach(w *world, v Verdict) {
	v.Limit = w.settleIntents().Milliseconds()
	g.intentRule.attach(w, v)
	g.took = g.measures("settled")
}

func (g *i3) event(e *history.Event) {
	for _, s := range g.book.changed {
		g.look(s)
		if e.Kind == history.RedisState && s.since == e.T && s.state == stateEnded {
			g.over(s)
		}
	}
}

// endAllowance is how long a tuner may serve a session after its record says ENDED.
const endAllowance = int64(time.Second)

// over judges that no tuner serves a session after its end: otherwise an instance without a valid term wrote ENDED. Two kinds of
// processes are exempt: a frozen one, and one whose connections led to another master, where it may hold the leases. The promise
// bounds how long the latter serves. After a loss of data, an older copy may say ENDED, and the serving worker may go on until its
// window ends.
func (g *i3) over(s *intent) {
	at, b := s.since, g.book
	from, before := at, at-int64(g.w.TTL)
	if b.forgiven(s) {
		from = max(at, b.lostAt+int64(g.w.TTL))
	}
	g.w.at(from+endAllowance, func() {
		p := b.serving(s)
		if p == nil || s.since != at || g.w.phase == "end" || g.w.host.stall(at, g.w.now) != 0 {
			return
		}
		if who := g.w.fleet.instance(p.inst); b.ledSince(who.node, before) && !who.node.frozenWithin(before) {
			g.broke(s.session, "session %s has said ENDED %s since %s, and at %s a tuner still served it to %s", s.id, s.reason, clock(at),
				clock(g.w.now), who.who())
		}
	})
}

// settled reports whether the session is in order: it runs and a tuner serves it, it has ended, or its loss is excused.
func (b *intents) settled(s *intent) bool {
	served := b.serving(s) != nil
	switch {
	case s.state == stateRunning:
		return s.stopped == 0 && served
	case s.ended() && (s.state != stateGone || s.reason != ""):
		return !b.w.replicated() || !served
	case s.state == "" || s.state == stateGone:
		return (b.forgiven(s) || s.accepted == 0) && !served
	}
	return false
}

// look begins a wait for a session that is not in order, and judges the wait once the session is in order.
func (g *i3) look(s *intent) {
	s.disorder.follow(&g.hooks, !g.book.settled(s), wait{
		took:   g.took,
		now:    func() promise { return g.promise(s) },
		missed: func(limit int64) { g.late(s, limit) },
	})
}

// promise returns the promise that the session comes to be in order. Without a view of Redis, the wait begins with the calm.
func (g *i3) promise(s *intent) promise {
	base := g.book.availableSince(s.disorder.from)
	if !g.w.Tap {
		base = max(base, g.w.calm)
		if g.w.calm == 0 {
			base = g.w.now
		}
	}
	limit := int64(g.w.settleIntents())
	settle := limit + int64(g.w.TTL) // a start that was lost before it reached a worker is swept up late
	// After a loss of data, or at another master, the start is delivered again, and another session may have the service now.
	if switched := g.w.servers.switched; g.w.allows(redeliveries) && (g.book.forgiven(s) || switched > 0 && s.asked <= switched) {
		limit += int64(g.w.TTL)
	}
	return promise{from: s.disorder.from - settle, base: base, by: base + limit, settle: settle}
}

func (g *i3) late(s *intent, limit int64) {
	state, by, from := s.state, "no tuner served it", s.disorder.from
	if state == "" {
		state = "known to nobody"
	}
	if s.stopped != 0 && !s.ended() {
		state += " and a stop had been accepted at " + clock(s.stopped)
	}
	if p := g.book.serving(s); p != nil {
		by = "a tuner served it to " + g.w.fleet.who(p.inst)
	}
	g.breach(breach{session: s.session, from: from, size: g.w.now - from},
		"session %s, accepted at %s, was %s at %s and %s, %d ms after it had to come to an end or run (limit %d ms)", s.id, clock(s.accepted),
		state, clock(g.w.now), by, ms(g.w.now-from), ms(limit))
}
