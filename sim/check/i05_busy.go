package check

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i5 judges the busy contract. A start that conflicts ends with R_LEASE_BUSY or R_NO_TUNER. It never hangs and never harms the running
// session. A session that ends as busy must have met a held lease. A conflicting session must end within a second if nothing delays it. A
// running session loses its leases or its pipeline only if a fault can explain it.
type i5 struct {
	hooks
	book   *intents
	leases map[string]*held
	slots  []*held // tuner slots among leases, in order of first use
	busy   map[string]int
	took   *times // time from the answer to the end of a conflicting session

	refused history.Event // last pipeline that a tuner refused
}

type held struct {
	name  string
	by    string // "": nobody
	until int64
	freed int64 // when it last became free; -1: never
	trust int64 // end of the last window that a worker reported, or of the last pipeline that used it

	serving map[int64]string // instances of the pipelines that use it
}

const busyLimit = int64(time.Second)

// Reasons for the end of a session that the judge knows.
const (
	reasonBusy     = "R_LEASE_BUSY"
	reasonNoTuner  = "R_NO_TUNER"
	reasonLost     = "R_LEASE_LOST"
	reasonPipeline = "R_PIPELINE_FAILED"
)

func (g *i5) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.leases, g.busy, g.took = map[string]*held{}, map[string]int{}, g.measures("busy")
	if !w.Tap {
		g.untested = "what Redis granted was not recorded"
	}
}

func (g *i5) lease(name string) *held {
	l := g.leases[name]
	if l == nil {
		l = &held{name: name, freed: -1, serving: map[int64]string{}}
		g.leases[name] = l
		if strings.HasPrefix(name, tunerPrefix) {
			g.slots = append(g.slots, l)
		}
	}
	return l
}

func (g *i5) event(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted:
		g.grant(e)
	case history.RedisExtended:
		if l := g.lease(e.Session); l.by != "" {
			l.until = max(l.until, e.Until)
		}
	case history.RedisDeleted:
		g.free(g.lease(e.Session))
	case history.RedisFlushed, history.TapDown:
		for _, name := range sortedKeys(g.leases) {
			g.free(g.leases[name])
		}
	case history.Acquired, history.Renewed:
		l := g.lease(e.Session)
		l.trust = max(l.trust, e.Until)
	case history.Lost, history.Released:
		g.lease(e.Session).trust = e.T
	case history.Arrived, history.Served, history.Aborted, history.Exited:
		g.uses(e)
	case history.Answered:
		if r := g.book.requests[e.N]; r != nil && r.want != nil && e.Reason == "202" {
			g.conflict(g.book.session(e.Session), r.want, e.T)
		}
	case history.Rejected:
		g.refused = *e
	case history.RedisState:
		if s := g.book.sessions[e.Session]; s != nil && s.since == e.T {
			g.met(s)
			if s.state == stateEnded {
				g.closed(s)
			}
		}
	}
}

// uses tracks the pipelines. A worker that lost a slot must stop its pipeline, and hear of that, before another session gets the slot.
func (g *i5) uses(e *history.Event) {
	switch e.Kind {
	case history.Arrived:
		g.lease(e.Session).serving[e.N] = e.Instance
	case history.Exited:
		for _, name := range sortedKeys(g.leases) {
			maps.DeleteFunc(g.leases[name].serving, func(_ int64, by string) bool { return by == e.Instance })
		}
	default:
		l := g.lease(e.Session)
		delete(l.serving, e.N)
		heard := e.T
		if l.by != e.Instance && strings.HasPrefix(l.name, tunerPrefix) {
			heard += int64(slotAllowance)
		}
		l.trust = max(l.trust, heard)
	}
}

func (g *i5) grant(e *history.Event) {
	l := g.lease(e.Session)
	if e.Instance == "" { // from an unread command: its holder is unknown, and may have been so until now
		g.free(l)
	}
	l.by, l.until = e.Instance, e.Until
}

func (g *i5) free(l *held) {
	if l.by != "" {
		l.by, l.freed = "", g.w.now
	}
}

// since reports whether the lease was held or used at any moment since t. After a loss of data, a lease counts as held while its
// owner trusts it, although Redis does not show it: no other session may have it yet.
func (l *held) since(t int64) bool {
	return l.by != "" || l.freed >= t || l.trust >= t || len(l.serving) > 0
}

// tried returns how many slots were held at some moment since then. A worker tries one after the other, so not all need be held at once.
func (g *i5) tried(since int64) (n int) {
	for _, l := range g.slots {
		if l.since(since) {
			n++
		}
	}
	return n
}

// conflict waits for the end of a session that was accepted while another session of its service ran.
func (g *i5) conflict(s *intent, v *want, at int64) {
	if s.accepted != at || !g.rivalled(s, v) {
		return
	}
	s.conflict = g.expect(wait{
		now: func() promise { // a fault just before may have lost its start along with an answer
			base, settle := g.book.availableSince(at), int64(g.w.settleIntents())
			return promise{from: at - settle, base: base, by: base + busyLimit, settle: settle + int64(g.w.TTL)}
		},
		pending: func() bool { return !g.book.forgiven(s) },
		missed: func(limit int64) {
			g.exercised++
			g.broke(g.w.session(s.id), "session %s of %s, accepted at %s while another one ran, was still %q at %s, after %d ms", s.id, v.payload,
				clock(at), s.state, clock(g.w.now), ms(limit))
		},
	})
	g.met(s) // it may have ended before the answer came
}

func (g *i5) met(s *intent) {
	if s.conflict == nil || !s.ended() && s.state != stateRunning {
		return
	}
	s.conflict.came()
	s.conflict = nil
}

// rivalled reports whether another session of the same service runs, unless Redis may have lost that session's data since.
func (g *i5) rivalled(s *intent, v *want) bool {
	for _, o := range g.book.running {
		if o != s && o.want != nil && o.want.service == v.service && !g.book.forgiven(o) {
			return true
		}
	}
	return false
}

func (g *i5) closed(s *intent) {
	g.busy[s.reason]++
	now := g.w.now
	switch s.reason {
	case reasonBusy:
		g.exercised++
		if s.accepted != 0 {
			g.took.add(max(0, now-s.accepted))
		}
		l := g.lease(s.service())
		if s.want != nil && !l.since(s.created) && !g.unseen(s) {
			g.broke(g.w.session(l.name), "session %s ended with %s at %s, and nobody had held %s since it was created at %s", s.id,
				s.reason, clock(now), l.name, clock(s.created))
		}
	case reasonNoTuner:
		g.exercised++
		if n := g.tried(s.created); n < g.w.Tuners && !g.unseen(s) {
			g.broke(g.w.session(s.id), "session %s ended with %s at %s although %d of %d slots had been free all the time since it was created at "+
				"%s", s.id, s.reason, clock(now), g.w.Tuners-n, g.w.Tuners, clock(s.created))
		}
	case reasonLost, reasonPipeline:
		g.exercised++
		if harmed, why := g.harmed(s); !harmed && g.w.phase != "end" {
			g.broke(g.w.session(s.id), "session %s, accepted at %s, ended with %s at %s, and %s", s.id, clock(s.accepted), s.reason, clock(now),
				why)
		}
	}
}

// maxTries is how often a start is delivered before it fails.
const maxTries = 5

// harmed reports whether the end of the session's pipeline has a cause: its worker is gone, or a fault hit that worker or Redis in the
// last TTL and renewal interval. If no worker began the session, each failed delivery but the first needs a fault.
func (g *i5) harmed(s *intent) (_ bool, why string) {
	now := g.w.now
	from := now - int64(g.w.TTL+g.w.Renew)
	id := s.worker
	if id == "" && g.refused.T >= s.created && s.reason == reasonPipeline {
		id = g.refused.Instance
	}
	if id == "" {
		n := 0
		for _, f := range g.w.injections {
			if r, ok := g.w.reach(f); ok && r.to >= s.created {
				n++
			}
		}
		return s.reason == reasonPipeline && n >= maxTries, fmt.Sprintf("no worker had begun it, and since it was created %d faults had hit "+
			"that could take it from one", n)
	}
	worker := g.w.instance(id)
	if worker.gone || g.w.stall(from, now) >= int64(g.w.RenewTimeout) {
		return true, ""
	}
	by := g.w.overlapping(from, now, nil, func(f *injection) (span, bool) {
		r, ok := g.w.reach(f)
		return r, ok && (f.node == nil || f.node == worker.node)
	})
	return by != nil, fmt.Sprintf("no fault of %s, which ran it, nor of Redis had hit for %v", worker.who(), time.Duration(now-from))
}

// unseen reports whether Redis was not watched, or lost its data, at any moment since the session was created.
func (g *i5) unseen(s *intent) bool { return g.book.gapAt >= s.created || g.book.lostAt >= s.created }

func (g *i5) verdict() Verdict {
	v := g.hooks.verdict()
	if len(g.busy) > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("sessions ended: %s", counts(g.busy)))
	}
	if g.took.n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("from the answer to %s: %s", reasonBusy, g.took))
	}
	return v
}
