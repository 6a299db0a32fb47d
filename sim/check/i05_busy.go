package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// i5 judges the busy contract. A start that conflicts ends with R_LEASE_BUSY or R_NO_TUNER. It never hangs and never harms the running
// session. A session that ends as busy must have met a held lease. A conflicting session must end within a second if nothing delays it. A
// running session loses its leases or its pipeline only if a fault can explain it.
type i5 struct {
	intentRule
	used map[string]int64 // when each lease was last held or used, or until when a worker trusts it
	busy map[string]int   // ended sessions, by reason
	took *measure.Times   // time from the answer to the end of a conflicting session
}

const busyLimit = int64(time.Second)

func (g *i5) attach(w *world, v Verdict) {
	g.intentRule.attach(w, v)
	g.took = g.measures("busy")
}

func (g *i5) event(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted, history.RedisExtended, history.RedisDeleted:
		g.uses(e, e.T)
	case history.Acquired, history.Renewed:
		g.uses(e, e.Until)
	case history.Lost, history.Released:
		g.used[e.Session] = e.T
	case history.Served, history.Aborted:
		heard := e.T
		if k := g.w.subject.granted; (k == nil || k.holder != e.Instance) && strings.HasPrefix(e.Session, tunerPrefix) && g.w.allows(slowSlots) {
			heard += int64(slotAllowance) // a worker that lost a slot must hear that its pipeline has stopped before another session gets the slot
		}
		g.uses(e, heard)
	case history.Answered:
		if r := g.book.answered; r != nil && r.want != nil && r.session != nil && r.session.accepted == e.T && g.rivalled(r.session, r.want) {
			g.conflicts(r.session, true)
			g.conflicts(r.session, !r.session.met()) // it may have ended before the answer came
		}
	case history.RedisState:
		if s := g.book.session(e.Session); s.since == e.T {
			g.conflicts(s, s.conflict.wait != nil && !s.met())
			if s.state == stateEnded {
				g.closed(s)
			}
		}
	}
}

func (g *i5) uses(e *history.Event, until int64) { g.used[e.Session] = max(g.used[e.Session], until) }

// held reports whether the lease was held or used at any moment since t. After a loss of data, a lease counts as held while its
// owner trusts it, even without a key in Redis, because no other session may have it yet.
func (g *i5) held(name string, t int64) bool {
	at, used := g.used[name]
	s := g.w.fleet.byID[name]
	return used && at >= t || s != nil && s.granted != nil ||
		slices.ContainsFunc(g.book.pipelines, func(p *pipeline) bool { return p.place == name })
}

// tried returns how many slots were held at some moment since then. A worker tries one slot after the other, so the slots need not
// all be held at the same time.
func (g *i5) tried(since int64) (n int) {
	for name := range g.used {
		if strings.HasPrefix(name, tunerPrefix) && g.held(name, since) {
			n++
		}
	}
	return n
}

// conflicts follows a session that was accepted while another session of its service ran.
func (g *i5) conflicts(s *intent, lasts bool) {
	at := s.accepted
	s.conflict.follow(&g.hooks, lasts, wait{
		now: func() promise { // a fault just before may have lost its start along with an answer
			base, settle := g.book.availableSince(at), int64(g.w.settleIntents())
			return promise{from: at - settle, base: base, by: base + busyLimit, settle: settle + int64(g.w.TTL)}
		},
		pending: func() bool { return !g.book.forgiven(s) },
		missed: func(limit int64) {
			g.broke(s.session, "session %s of %s, accepted at %s while another one ran, was still %q at %s, after %d ms", s.id, s.want.payload,
				clock(at), s.state, clock(g.w.now), ms(limit))
		},
	})
}

func (s *intent) met() bool { return s.ended() || s.state == stateRunning }

// rivalled reports whether another session of the same service runs, unless Redis may have lost that session's data since.
func (g *i5) rivalled(s *intent, v *want) bool {
	for o := range g.book.live {
		if o != s && o.state == stateRunning && o.want.service == v.service && !g.book.forgiven(o) {
			return true
		}
	}
	return false
}

// closed judges the reason for which a session ended. It does not judge a busy ending if Redis was not watched, or lost its data,
// during the session.
func (g *i5) closed(s *intent) {
	g.busy[s.reason]++
	seen, now := g.book.gapAt < s.created && g.book.lostAt < s.created, g.w.now
	switch s.reason {
	case reasonBusy:
		g.exercise("")
		if s.accepted != 0 {
			g.took.Add(max(0, now-s.accepted))
		}
		if lease := s.want.service; seen && lease != "" && !g.held(lease, s.created) {
			g.broke(g.w.fleet.session(lease), "session %s ended with %s at %s, and nobody had held %s since it was created at %s", s.id, s.reason,
				clock(now), lease, clock(s.created))
		}
	case reasonNoTuner:
		g.exercise("")
		if n := g.tried(s.created); seen && n < g.w.Tuners {
			g.broke(s.session, "session %s ended with %s at %s although %d of %d slots had been free all the time since it was created at %s",
				s.id, s.reason, clock(now), g.w.Tuners-n, g.w.Tuners, clock(s.created))
		}
	case reasonLost, reasonPipeline:
		g.exercise("")
		if harmed, why := g.harmed(s); !harmed && g.w.phase != "end" {
			g.broke(s.session, "session %s, accepted at %s, ended with %s at %s, and %s", s.id, clock(s.accepted), s.reason, clock(now), why)
		}
	}
}

// maxTries is how often a start is delivered before it fails.
const maxTries = 5

// harmed reports whether the end of the session's pipeline has a cause: its worker is gone, or a fault hit that worker or Redis in
// the last TTL and renewal interval. If no worker began the session, each failed delivery except the first needs a fault as its
// cause.
func (g *i5) harmed(s *intent) (_ bool, why string) {
	id, from := s.worker, g.w.now-int64(g.w.TTL+g.w.Renew)
	if id == "" {
		n := 0
		for range g.w.faults.reaching(s.created, nil, g.w.faults.reach) {
			n++
		}
		return s.reason == reasonPipeline && n >= maxTries, fmt.Sprintf("no worker had begun it, and since it was created %d faults had hit "+
			"that could take it from one", n)
	}
	worker, now := g.w.fleet.instance(id), g.w.now
	stalled := g.w.host.stall(from, now) >= int64(g.w.RenewTimeout)
	return worker.gone || stalled || g.w.faults.hindered(worker.node, from, now, nil) != nil,
		fmt.Sprintf("no fault of %s, which ran it, nor of Redis had hit for %v", worker.who(), time.Duration(now-from))
}

func (g *i5) finish() {
	if len(g.busy) > 0 {
		g.note("sessions ended: %s", counts(g.busy))
	}
}
