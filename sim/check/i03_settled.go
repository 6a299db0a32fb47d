package check

import (
	"cmp"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i3 judges that every accepted intent reaches a terminal or running state within a stated time, and that no crash loses one. The
// deadline accounts for delays, so i3 judges the storm like the calm. A tuner must serve a session that is RUNNING. A stopped session
// must end, and a session that Redis lost must not be served any more.
type i3 struct {
	hooks
	book *intents
	took *times // time until a session was in order again
}

// settleAllowance is the fixed part of I3's limit.
const settleAllowance = time.Second

// slotAllowance is the time that a worker may need to find one tuner slot taken. It tries one slot after the other.
const slotAllowance = 50 * time.Millisecond

// settleIntents returns how long an intent may take if nothing delays it. A session whose answer was lost is found again with the second
// heartbeat of its worker, of which there are ten per TTL.
func (p Params) settleIntents() time.Duration {
	return p.TTL/5 + settleAllowance + time.Duration(p.Tuners)*slotAllowance
}

func (g *i3) attach(w *world, v Verdict) {
	v.Limit = w.settleIntents().Milliseconds()
	g.hooks.attach(w, v)
	g.took = g.measures("settled")
}

func (g *i3) event(e *history.Event) {
	b := g.book
	if b.shown {
		g.lookAtAll()
	}
	switch e.Kind {
	case history.Phase, history.RedisFlushed, history.RedisUp:
		g.lookAtAll()
	case history.RedisIntent:
		if s := b.session(e.Session); s.stopped == e.T {
			if s.pending != nil {
				s.pending.from = e.T
			}
			g.look(s)
		}
	case history.Answered:
		if r := b.requests[e.N]; r != nil && e.Reason == "202" {
			g.answered(b, r, e)
		}
	case history.Arrived, history.Served, history.Aborted:
		if s := b.touched; s != nil {
			g.look(s)
		}
	case history.RedisState, history.Seen:
		s := b.sessions[e.Session]
		if s == nil {
			return
		}
		g.look(s)
		if s.since == e.T && s.state == stateEnded {
			g.over(s, e.T)
		}
	}
}

func (g *i3) lookAtAll() {
	for _, s := range g.book.order {
		g.look(s)
	}
}

// answered begins the wait for an accepted start or stop. A stop restarts a wait that is pending.
func (g *i3) answered(b *intents, r *request, e *history.Event) {
	s := b.session(cmp.Or(r.session, e.Session))
	if s.pending != nil && s.stopped == e.T {
		s.pending.from = e.T
	}
	g.look(s)
}

// endAllowance is how long a tuner may serve a session after its record says ENDED.
const endAllowance = int64(time.Second)

// over judges that a session is not served after it ended: else an instance without a valid term wrote ENDED. A frozen process is exempt.
// After a loss of data, an older copy may say ENDED, and the serving worker may go on until its window ends.
func (g *i3) over(s *intent, at int64) {
	from := at
	if g.book.forgiven(s) {
		from = max(at, g.book.lostAt+int64(g.w.TTL))
	}
	g.w.at(from+endAllowance+g.w.stall(at, g.w.now), func() {
		for _, p := range s.serving {
			before := at - int64(g.w.TTL)
			if s.since == at && g.led(p, before) && !g.w.frozenSince(p.inst, before) && g.w.stall(at, g.w.now) == 0 && g.w.phase != "end" {
				g.broke(g.w.session(s.id), "session %s has said ENDED %s since %s, and at %s a tuner still served it to %s", s.id, s.reason,
					clock(at), clock(g.w.now), g.w.instance(p.inst).who())
			}
		}
	})
}

// led reports whether a pipeline's worker has been led to the master that the sentinels know. Other workers may hold leases at another
// master. The promise of i3 bounds them, because an ended session that is served is not in order.
func (g *i3) led(p *served, since int64) bool {
	n := g.w.instance(p.inst).node
	return n == nil || g.book.ledSince(n.name, since)
}

// pending is the wait until a session is in order.
type pending struct {
	*wait
	from int64
}

// settled reports whether the session's record is as it should be in the end, and whether tuners serve it exactly if it is RUNNING.
func (b *intents) settled(s *intent) bool {
	switch {
	case s.state == stateRunning:
		return s.stopped == 0 && len(s.serving) > 0
	case s.ended() && (s.state != stateGone || s.reason != ""):
		return !b.w.replicated() || len(s.serving) == 0
	case s.state == "" || s.state == stateGone:
		return (b.forgiven(s) || s.accepted == 0) && len(s.serving) == 0
	}
	return false
}

// look begins to wait for a session that is not in order, and judges one that has come to be in order.
func (g *i3) look(s *intent) {
	o, settled := s.pending, g.book.settled(s)
	switch {
	case settled && o != nil:
		s.pending = nil
		if took, _, stands := o.came(); stands != unjudged {
			g.took.add(took)
		}
	case !settled && o == nil && g.w.phase != "end":
		o = &pending{from: g.w.now}
		s.pending = o
		o.wait = g.expect(wait{
			now:     func() promise { return g.promise(s, o) },
			pending: func() bool { return s.pending == o },
			missed: func(limit int64) {
				g.exercised++
				g.took.add(g.w.now - o.from)
				g.near(g.w.now-o.from, limit)
				g.late(s, o, limit)
			},
		})
	}
}

// promise returns the promise that the session comes to be in order. Without a view of Redis, the wait begins with the calm.
func (g *i3) promise(s *intent, o *pending) promise {
	base := g.book.availableSince(o.from)
	if !g.w.Tap {
		base = max(base, g.w.calm)
		if g.w.calm == 0 {
			base = g.w.now
		}
	}
	limit := int64(g.w.settleIntents())
	settle := limit + int64(g.w.TTL) // a start that was lost before it reached a worker is swept up late
	if g.book.outlived(s) {          // it is delivered again, and its former worker may hold the service for another session now
		limit += int64(g.w.TTL)
	}
	return promise{from: o.from - settle, base: base, by: base + limit, settle: settle}
}

func (g *i3) late(s *intent, o *pending, limit int64) {
	state := s.state
	if state == "" {
		state = "known to nobody"
	}
	if s.stopped != 0 && !s.ended() {
		state += " and a stop had been accepted at " + clock(s.stopped)
	}
	by := "no tuner served it"
	if len(s.serving) > 0 {
		by = "a tuner served it to " + g.w.instance(s.serving[0].inst).who()
	}
	g.breach(breach{session: g.w.session(s.id), from: o.from, size: g.w.now - o.from},
		"session %s, accepted at %s, was %s at %s and %s, %d ms after it had to come to an end or run (limit %d ms)", s.id, clock(s.accepted),
		state, clock(g.w.now), by, ms(g.w.now-o.from), ms(limit))
}

func (g *i3) verdict() Verdict {
	v := g.hooks.verdict()
	g.nearest(&v)
	if g.took.n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("until all was in order: %s", g.took))
	}
	return v
}
