package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g13: a stopped instance releases all it holds, and the others own it within 250 ms.
type g13 struct {
	hooks
	heirless map[string]*legacy // released by an instance that stops, and owned by nobody since
	stops    map[*strike]bool
	beatless bool // heartbeats are not judged: a member of an election may still write one while it stops, and nobody waits for its end
	took     *times
}

// legacy is one lease that an instance released because it was stopped.
type legacy struct {
	session *session
	from    *instance
	stop    *strike
	at      int64
	over    bool
	late    int64 // the limit that has passed; 0: none
}

func (g *g13) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.heirless = map[string]*legacy{}
	g.stops = map[*strike]bool{}
	g.took = g.measures("handover")
}

func (g *g13) ended(t *term, how ending) {
	n := t.inst.node
	if n == nil || n.asked == nil || g.w.phase == "end" {
		return
	}
	stop := n.asked
	switch {
	case how == endExited && !t.passed:
		if by := g.w.hindered(n, stop.start, g.w.now, stop); by != nil {
			g.excuse(by)
			return
		}
		g.exercise(string(stop.Kind))
		g.broke(t.session, "%s was asked to stop at %s and ended at %s without releasing its lease of session %s%s",
			t.inst.who(), clock(stop.start), clock(g.w.now), t.session.id, inBrackets(t.fence))
	case how == endReleased && g.takenFrom(t):
		return // it has an owner already
	case how == endReleased && (t.session.unpaused() || !t.session.added) && g.others(n):
		l := &legacy{session: t.session, from: t.inst, stop: stop, at: g.w.now}
		g.heirless[t.session.id] = l
		g.watch(l)
	}
}

// takenFrom reports whether another instance holds what t's instance believed to hold, because a foreign hand deleted the key.
func (g *g13) takenFrom(t *term) bool {
	o := t.session.owner(g.w.now)
	return o != nil && o.inst != t.inst
}

// others reports whether anybody is there to take what the node leaves.
func (g *g13) others(leaver *node) bool {
	for _, n := range g.w.nodes {
		if n != leaver && n.current != nil && n.current.ready && !n.current.gone && n.asked == nil &&
			g.w.now-n.current.since >= g.w.startDelay() {
			return true
		}
	}
	return false
}

func (g *g13) watch(l *legacy) {
	g.w.await(func() (promise, bool) { return g.promise(l), !l.over && g.w.phase != "end" }, func(limit int64, excused *strike) {
		if excused == nil {
			l.late = limit // it is broken; how late it will be is seen when somebody takes it
			return
		}
		g.close(l)
		g.excuse(excused)
	})
}

// promise is that somebody takes what was released.
func (g *g13) promise(l *legacy) promise {
	base := g.w.manned(l.at)
	return promise{from: l.at, base: base, by: base + int64(failoverAllowance), settle: g.w.settleAfter(), session: l.session, but: l.stop}
}

// finish names those that nobody took at all.
func (g *g13) finish() {
	for _, id := range sortedKeys(g.heirless) {
		if l := g.heirless[id]; l.late > 0 {
			g.exercise(string(l.stop.Kind))
			g.took.add(g.w.now - l.at)
			g.near(g.w.now-l.at, l.late)
			g.breach(breach{session: l.session, from: l.at, due: l.at + l.late, by: l.stop},
				"session %s was released by %s at %s, which was asked to stop at %s, and nobody had acquired it %d ms later",
				id, l.from.who(), clock(l.at), clock(l.stop.start), ms(g.w.now-l.at))
		}
	}
}

func (g *g13) close(l *legacy) {
	l.over = true
	if g.heirless[l.session.id] == l {
		delete(g.heirless, l.session.id)
	}
}

func (g *g13) event(e *history.Event) {
	switch e.Kind {
	case history.PollStart:
		g.polls(g.w.subject, g.w.speaker)
	case history.PollEnd, history.PollCancelled:
		if g.w.subject.poller == g.w.speaker {
			g.polls(g.w.subject, nil)
		}
	case history.Stopped:
		g.left(g.w.speaker)
	}
	if l := g.heirless[e.Session]; l != nil && (e.Kind == history.SessionRemoved || e.Kind == history.SessionPaused) {
		g.close(l)
	}
}

func (g *g13) struck(s *strike) {
	if s.Kind.Has(fault.Stops) && s.node != nil && s.node.current != nil {
		g.stops[s] = true
		g.drains(s, s.node.current)
	}
}

// polls notes whose poll of the session runs.
func (g *g13) polls(s *session, i *instance) {
	if was := s.poller; was != nil {
		if was.polls--; was.polls == 0 {
			was.idle = g.w.now
			if was.leave != nil {
				g.drains(was.leave, was)
			}
		}
	}
	if s.poller = i; i != nil {
		i.polls++
	}
}

// drains watches that an instance that is asked to stop gives back all that it holds, as soon as no poll of its own runs.
func (g *g13) drains(stop *strike, i *instance) {
	idle := i.idle
	g.w.await(func() (promise, bool) {
		limit := int64(failoverAllowance)
		if i.polls > 0 {
			limit += int64(g.w.PollTimeout)
		}
		base := max(stop.start, i.idle)
		c := promise{from: stop.start, base: base, by: base + limit, settle: limit, only: stop.node, but: stop}
		return c, len(i.held) > 0 && i.idle == idle && !i.gone && g.w.phase != "end"
	}, func(limit int64, excused *strike) {
		if excused != nil {
			g.excuse(excused)
			return
		}
		g.exercised++
		g.broke(nil, "%s was asked to stop at %s and still held %d leases at %s (limit %d ms)", i.who(), clock(stop.start), len(i.held),
			clock(g.w.now), ms(limit))
	})
}

// left looks at what is left of an instance that stopped: its heartbeat must be gone.
func (g *g13) left(i *instance) {
	stop, at := i.leave, g.w.now
	if stop == nil || g.beatless || g.w.rest.beats[i.id] == 0 {
		return
	}
	g.w.at(at+int64(failoverAllowance), func() {
		until := g.w.rest.beats[i.id]
		if until <= g.w.now || g.w.phase == "end" {
			return
		}
		if by := g.w.hindered(i.node, stop.start, at, stop); by != nil {
			g.excuse(by)
			return
		}
		g.exercised++
		g.broke(nil, "%s was asked to stop at %s, ended at %s, and its heartbeat lives until %s", i.who(), clock(stop.start), clock(at),
			clock(until))
	})
}

func (g *g13) began(t *term) {
	l := g.heirless[t.session.id]
	if l == nil || t.inst == l.from {
		return
	}
	g.close(l)
	stands, limit := tooLate, l.late
	if l.late > 0 {
		g.exercise(string(l.stop.Kind))
		g.near(g.w.now-l.at, l.late)
	} else if limit, stands = g.held(g.promise(l)); stands == unjudged {
		return
	}
	took := g.w.now - l.at
	g.took.add(took)
	if stands == tooLate {
		g.breach(breach{session: l.session, from: l.at, size: took, due: l.at + limit, by: l.stop},
			"session %s was released by %s at %s and acquired by %s %d ms later", l.session.id, l.from.who(),
			clock(l.at), t.inst.who(), ms(took))
	}
}

func (g *g13) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = ms(g.took.max)
	g.nearest(&v)
	if n := g.took.n; n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d leases handed over in %d clean stops: %s", n, len(g.stops), g.took))
	}
	return v
}
