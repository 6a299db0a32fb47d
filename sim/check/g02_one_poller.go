package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g2: the polled target never serves two instances for one session at once, and never accepts a poll with an older fence.
//
// It is judged from the target's own record; of the nodes only is used which of them the plan had frozen.
type g2 struct {
	hooks
	targets  map[string]*targeted
	arrivals int
	older    int // accepted with an older fence, or one fence from two instances
	together int // overlapping arrivals that nothing explains
	frozen   int // overlaps with the work of a frozen process
	late     int // polls of a process that had been frozen, refused by fence
	rejected int
}

// targeted is what the target knows of one session.
type targeted struct {
	fence   int64  // highest accepted
	holder  string // instance that was accepted with it
	last    string // instance accepted last
	serving []arrival
}

// arrival is a poll that was accepted and not yet answered.
type arrival struct {
	n     int64
	inst  string
	fence int64
	at    int64
}

// sentLate is how long after a thaw a poll may still arrive that was begun before the freeze.
const sentLate = int64(failoverAllowance)

func (g *g2) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.targets = map[string]*targeted{}
}

func (g *g2) target(session string) *targeted {
	t := g.targets[session]
	if t == nil {
		t = &targeted{}
		g.targets[session] = t
	}
	return t
}

func (g *g2) event(e *history.Event) {
	switch e.Kind {
	case history.Arrived:
		g.arrived(g.target(e.Session), e)
	case history.Served, history.Aborted:
		t := g.target(e.Session)
		for i := range t.serving {
			if t.serving[i].n == e.N {
				t.serving = append(t.serving[:i], t.serving[i+1:]...)
				break
			}
		}
	case history.Rejected:
		g.rejected++
		g.exercised++
		if g.wasFrozen(e.Instance, e.T-sentLate) {
			g.late++
		}
	}
}

func (g *g2) arrived(t *targeted, e *history.Event) {
	g.arrivals++
	if t.last != "" && t.last != e.Instance {
		g.exercised++
	}
	s := g.w.session(e.Session)
	g.fenced(s, t, e)
	for _, a := range t.serving {
		if a.inst == e.Instance {
			continue
		}
		if g.wasFrozen(a.inst, a.at-sentLate) || g.wasFrozen(e.Instance, e.T-sentLate) {
			g.frozen++
			continue
		}
		g.together++
		g.broke(s, "the target served session %s to %s (poll %d, fence %d, arrived %s, not yet answered) when the poll of %s "+
			"(poll %d, fence %d) arrived at %s: two pollers at once, and the plan had frozen neither",
			s.id, g.w.instance(a.inst).who(), a.n, a.fence, clock(a.at), g.w.instance(e.Instance).who(), e.N, e.Fence,
			clock(e.T))
	}
	t.last = e.Instance
	t.serving = append(t.serving, arrival{e.N, e.Instance, e.Fence, e.T})
}

// fenced holds the poll's fence against the highest that the target has accepted.
func (g *g2) fenced(s *session, t *targeted, e *history.Event) {
	switch {
	case e.Fence == 0:
	case e.Fence < t.fence:
		g.older++
		g.broke(s, "the target accepted poll %d of %s for session %s with fence %d at %s, after it had accepted fence %d of %s",
			e.N, g.w.instance(e.Instance).who(), s.id, e.Fence, clock(e.T), t.fence, g.w.instance(t.holder).who())
	case e.Fence == t.fence && t.holder != e.Instance:
		g.older++
		g.broke(s, "the target accepted fence %d for session %s from two instances: first from %s, and at %s (poll %d) from %s",
			e.Fence, s.id, g.w.instance(t.holder).who(), clock(e.T), e.N, g.w.instance(e.Instance).who())
	}
	if e.Fence > t.fence {
		t.fence, t.holder = e.Fence, e.Instance
	}
}

// wasFrozen reports whether the plan froze the instance's process at any moment since then.
func (g *g2) wasFrozen(inst string, since int64) bool {
	i := g.w.instances[inst]
	return i != nil && i.node.frozenWithin(since)
}

func (g *g2) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = int64(g.older + g.together)
	if g.arrivals == 0 {
		v.Detail = "the target saw no poll"
		return v
	}
	v.Detail = join(v.Detail, fmt.Sprintf("%d polls accepted, %d refused by fence; of frozen processes: sent late and refused %d, "+
		"frozenInFlight %d", g.arrivals, g.rejected, g.late, g.frozen))
	return v
}
