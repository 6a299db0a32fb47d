package check

import (
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// g13 judges that a stopped instance releases all its leases, and that others own them within 250 ms.
type g13 struct {
	hooks
	handovers map[string]*handover // leases that a stopping instance released and no instance has acquired since
	stops     map[*injection]bool
	beatless  bool // heartbeats are not judged: a member of an election may write one while it stops, and nobody waits for its end
	took      *measure.Times
}

// handover is a lease that an instance released because it stops.
type handover struct {
	*wait
	session *session
	from    *instance
	stop    *injection
	at      int64
	taker   *instance
	known   int64 // when all instances that still trust the lease must know that its key was deleted; 0: another instance can take it
}

func (g *g13) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.handovers = map[string]*handover{}
	g.stops = map[*injection]bool{}
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
		if by := g.w.faults.hindered(n, stop.From, g.w.now, stop); by != nil {
			g.excuse(by.name())
			return
		}
		g.exercise(string(stop.Kind))
		g.broke(t.session, "%s was asked to stop at %s and ended at %s without releasing its lease of session %s%s",
			t.inst.who(), clock(stop.From), clock(g.w.now), t.session.id, inBrackets(t.fence))
	case how == endReleased && g.takenFrom(t):
		return // another instance owns it already
	case how == endReleased && (t.session.unpaused() || !t.session.added) && g.others(n, nil):
		h := &handover{session: t.session, from: t.inst, stop: stop, at: g.w.now}
		if !g.others(n, t.session) {
			h.known = g.w.faults.deletionKnown(t.session, h.at)
		}
		g.handovers[t.session.id] = h
		h.wait = g.expect(wait{
			now: func() promise { return g.promise(h) }, took: g.took, late: func(_, limit int64) { g.late(h, limit) },
		})
	}
}

// takenFrom reports whether another instance owns the lease that t's instance still trusted, because somebody deleted its key.
func (g *g13) takenFrom(t *term) bool {
	o := t.session.owner(g.w.now)
	return o != nil && o.inst != t.inst
}

// others reports whether an instance other than the leaver, and not a believing holder of the session, can acquire its leases.
func (g *g13) others(leaver *node, believes *session) bool {
	for _, n := range g.w.fleet.nodes {
		if n != leaver && n.current != nil && n.current.ready && !n.current.gone && n.asked == nil &&
			g.w.now-n.current.since >= g.w.startDelay() && (believes == nil || !believes.believedBy(n.current, g.w.now)) {
			return true
		}
	}
	return false
}

// believedBy reports whether the instance believes that it holds the session, although another may have acquired it since.
func (s *session) believedBy(i *instance, now int64) bool {
	t := s.heldBy(i)
	return t != nil && t.believes(now)
}

// promise returns the promise that an instance acquires the released lease. An instance may not know yet that Redis answers it again.
func (g *g13) promise(h *handover) promise {
	probe := g.w.probe()
	if !g.w.allows(probes) {
		probe = 0
	}
	base := max(g.w.fleet.availableSince(h.at), g.w.fleet.candidateSince(h.from), h.known)
	return promise{
		from: h.at - probe, base: base, by: base + int64(FailoverAllowance), settle: g.w.settleAfter(), session: h.session, but: h.stop,
	}
}

// late reports a lease that was acquired too late, or by nobody.
func (g *g13) late(h *handover, limit int64) {
	took := g.w.now - h.at
	b := breach{session: h.session, from: h.at, size: took, due: h.at + limit, by: h.stop}
	if h.taker == nil {
		g.breach(b, "session %s was released by %s at %s, which was asked to stop at %s, and nobody had acquired it %d ms later", h.session.id,
			h.from.who(), clock(h.at), clock(h.stop.From), ms(took))
		return
	}
	g.breach(b, "session %s was released by %s at %s and acquired by %s %d ms later", h.session.id, h.from.who(), clock(h.at), h.taker.who(),
		ms(took))
}

func (g *g13) event(e *history.Event) {
	switch e.Kind {
	case history.PollStart:
		g.polls(g.w.subject, g.w.reporter)
	case history.PollEnd: // a cancelled poll runs until it returns
		g.polled(g.w.subject, g.w.reporter)
	case history.Stopped:
		g.left(g.w.reporter)
	}
	if h := g.handovers[e.Session]; h != nil && (e.Kind == history.SessionRemoved || e.Kind == history.SessionPaused) {
		h.over = true
	}
}

func (g *g13) injected(inj *injection) {
	if inj.Has(fault.Stops) && inj.node != nil && inj.node.current != nil {
		g.stops[inj] = true
		g.drains(inj, inj.node.current)
	}
}

// polls records that i polls s. Another instance may still poll s, if it has not noticed the loss of its lease.
func (g *g13) polls(s *session, i *instance) {
	if slices.Contains(s.pollers, i) {
		return
	}
	s.pollers = append(slices.DeleteFunc(s.pollers, func(o *instance) bool { return o.gone }), i)
	i.polls++
}

func (g *g13) polled(s *session, i *instance) {
	k := slices.Index(s.pollers, i)
	if k < 0 {
		return
	}
	s.pollers = slices.Delete(s.pollers, k, k+1)
	if i.polls--; i.polls == 0 {
		i.idle = g.w.now
		if i.leave != nil {
			g.drains(i.leave, i)
		}
	}
}

// drains waits until a stopping instance has released all its leases, counted from the end of its last poll.
func (g *g13) drains(stop *injection, i *instance) {
	idle := i.idle
	g.expect(wait{
		now: func() promise {
			limit := int64(FailoverAllowance)
			if i.polls > 0 && g.w.allows(runningPolls) {
				limit += int64(g.w.PollTimeout)
			}
			base := max(stop.From, i.idle)
			return promise{from: stop.From, base: base, by: base + limit, settle: limit, only: stop.node, but: stop}
		},
		pending: func() bool { return len(i.held) > 0 && i.idle == idle && !i.gone },
		missed: func(limit int64) {
			kept := i.held[i.leases()[0]]
			g.breach(breach{session: kept.session, terms: []*term{kept}, from: stop.From, due: stop.From + limit, by: stop},
				"%s was asked to stop at %s and still held %d leases at %s (limit %d ms)", i.who(), clock(stop.From), len(i.held),
				clock(g.w.now), ms(limit))
		},
	})
}

// left judges that the heartbeat of a stopped instance is gone.
func (g *g13) left(i *instance) {
	stop, at := i.leave, g.w.now
	if stop == nil || g.beatless || g.w.rest.beats[i.id] == 0 {
		return
	}
	g.w.at(at+int64(FailoverAllowance), func() {
		until := g.w.rest.beats[i.id]
		if until <= g.w.now || g.w.phase == "end" {
			return
		}
		if by := g.w.faults.hindered(i.node, stop.From, at, stop); by != nil {
			g.excuse(by.name())
			return
		}
		g.exercise("")
		g.breach(breach{from: at, by: stop, who: []*instance{i}, shown: true},
			"%s was asked to stop at %s, ended at %s, and its heartbeat lives until %s", i.who(), clock(stop.From), clock(at),
			clock(until))
	})
}

func (g *g13) began(t *term) {
	if h := g.handovers[t.session.id]; h != nil && t.inst != h.from && !h.over {
		h.taker = t.inst
		h.came()
	}
}

func (g *g13) finish() {
	g.hooks.finish()
	if g.took.N > 0 {
		g.note("%d leases handed over in %d clean stops: %s", g.took.N, len(g.stops), g.took)
	}
}
