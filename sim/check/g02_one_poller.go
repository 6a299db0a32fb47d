package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g2 judges that the polled target never serves two instances for one session at once, and never accepts a poll with an older fence. It
// also judges that no instance polls a session that it has lost (stales).
//
// The target's own record decides. The nodes only report when a poll begins, and the plan shows which of them it froze. After the plan
// deleted the lease's key, two instances may own the lease for a moment (the exception of G1). Two polls that meet then are counted apart
// if the later one has the higher fence.
type g2 struct {
	hooks
	arrivals int
	older    int               // accepted polls with an older fence, or with a fence of another instance
	together int               // unexplained overlaps of arrivals
	frozen   int               // overlaps with a poll of a frozen process
	deleted  int               // overlaps explained by a deleted key
	hungUp   int               // overlaps with a poll whose client had hung up before the target noticed
	meetings map[int64]meeting // by the number of the first poll, whose client had hung up
	gone     map[owning]int64  // when an instance last reported that it cancelled a poll of a session
	late     int               // refused polls of processes that had been frozen
	rejected int
	stale    stales
}

// targeted is the target's view of one session.
type targeted struct {
	fence   int64  // highest accepted
	holder  string // instance whose poll with that fence was accepted
	serving []arrival
}

// arrival is an accepted poll without an answer yet.
type arrival struct {
	n     int64
	inst  string
	fence int64
	at    int64
}

type meeting struct {
	s      *session
	first  arrival
	second history.Event
}

// sentLate is how long after a thaw a poll from before the freeze may arrive.
const sentLate = int64(failoverAllowance)

func (g *g2) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.gone, g.meetings = map[owning]int64{}, map[int64]meeting{}
	g.stale = stales{g: g}
}

func (g *g2) began(t *term) {
	if t.challenged != "" {
		t.session.turns.taken, t.session.turns.by = t.inst.id, t.challenged
	}
}

func (g *g2) event(e *history.Event) {
	g.stale.event(e)
	switch e.Kind {
	case history.Arrived:
		g.arrived(&g.w.subject.target, e)
	case history.PollCancelled:
		g.gone[owning{g.w.instance(e.Instance), e.Session}] = e.T
	case history.Served, history.Aborted:
		switch _, met := g.meetings[e.N]; {
		case !met:
		case e.Kind == history.Served:
			g.met(e.N) // served to its end: the client had not hung up
		default:
			delete(g.meetings, e.N)
			g.hungUp++
		}
		if e.Kind == history.Aborted {
			delete(g.gone, owning{g.w.instance(e.Instance), e.Session})
		}
		t := &g.w.subject.target
		for i := range t.serving {
			if t.serving[i].n == e.N {
				t.serving = append(t.serving[:i], t.serving[i+1:]...)
				break
			}
		}
	case history.Rejected:
		g.rejected++
		if g.w.frozenSince(e.Instance, e.T-sentLate) {
			g.late++
		}
	}
}

func (g *g2) arrived(t *targeted, e *history.Event) {
	g.arrivals++
	s := g.w.subject
	if s.turns.taken == e.Instance && e.Instance != "" {
		s.turns.taken = ""
		g.exercise(s.turns.by)
	}
	g.fenced(s, t, e)
	for _, a := range t.serving {
		if a.inst == e.Instance {
			continue
		}
		if g.w.frozenSince(a.inst, a.at-sentLate) || g.w.frozenSince(e.Instance, e.T-sentLate) {
			g.frozen++
			continue
		}
		if a.fence < e.Fence && g.w.deletedUnknown(s, e.T) {
			g.deleted++
			continue
		}
		met := meeting{s, a, *e}
		if g.gone[owning{g.w.instance(a.inst), s.id}] > a.at { // its client has hung up, and the target will notice soon
			g.meetings[a.n] = met
			g.w.at(e.T+int64(failoverAllowance), func() { g.met(a.n) })
			continue
		}
		g.overlapped(&met)
	}
	t.serving = append(t.serving, arrival{e.N, e.Instance, e.Fence, e.T})
}

// met judges a meeting with a poll whose client had hung up, unless the target has noticed that by now.
func (g *g2) met(n int64) {
	if m, ok := g.meetings[n]; ok {
		delete(g.meetings, n)
		g.overlapped(&m)
	}
}

func (g *g2) overlapped(m *meeting) {
	a, e := &m.first, &m.second
	g.together++
	m.s.turns.counted(e.N)
	g.broke(m.s, "the target served session %s to %s (poll %d%s, arrived %s, not yet answered) when the poll of %s "+
		"(poll %d%s) arrived at %s: two pollers at once, and the plan had frozen neither",
		m.s.id, g.w.instance(a.inst).who(), a.n, fenced(a.fence), clock(a.at), g.w.instance(e.Instance).who(), e.N, fenced(e.Fence),
		clock(e.T))
}

func (g *g2) fenced(s *session, t *targeted, e *history.Event) {
	switch {
	case e.Fence == 0:
	case e.Fence < t.fence:
		g.older++
		s.turns.counted(e.N)
		g.broke(s, "the target accepted poll %d of %s for session %s with fence %d at %s, after it had accepted fence %d of %s",
			e.N, g.w.instance(e.Instance).who(), s.id, e.Fence, clock(e.T), t.fence, g.w.instance(t.holder).who())
	case e.Fence == t.fence && t.holder != e.Instance:
		g.older++
		s.turns.counted(e.N)
		g.broke(s, "the target accepted fence %d for session %s from two instances: first from %s, and at %s (poll %d) from %s",
			e.Fence, s.id, g.w.instance(t.holder).who(), clock(e.T), e.N, g.w.instance(e.Instance).who())
	}
	if e.Fence > t.fence {
		t.fence, t.holder = e.Fence, e.Instance
	}
}

func (g *g2) verdict() Verdict {
	if g.exercised == 0 {
		g.untested = unchallenged
	}
	v := g.hooks.verdict()
	v.Value = int64(g.older + g.together + g.stale.polls)
	if g.arrivals == 0 {
		v.Detail = "the target saw no poll"
		return v
	}
	v.Detail = join(v.Detail, fmt.Sprintf("%d polls accepted, %d refused by fence; of frozen processes: sent late and refused %d, "+
		"frozenInFlight %d", g.arrivals, g.rejected, g.late, g.frozen))
	if g.hungUp > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d polls came when the client before had hung up, which the target noticed a moment "+
			"later", g.hungUp))
	}
	if n := g.stale.frozen; n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d polls of processes that had been frozen began after another was granted the "+
			"session", n))
	}
	if g.deleted > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("after a key was deleted by hand, before its owner could know, %d polls came while its "+
			"last one was served", g.deleted))
	}
	if n := g.stale.deleted; n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("after a key was deleted by hand, before its owner could know, it began %d polls that were "+
			"another's", n))
	}
	return v
}

// owning is one instance's view of one session.
type owning struct {
	inst    *instance
	session string
}
