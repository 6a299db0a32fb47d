package check

import (
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// given holds the fences of one lease that instances were given, by their messages or by Redis' stream. It also holds the fences that the
// target saw although no instance was given them. It is judged at the end, because the three records come in any order.
type given struct {
	polled  int64 // the last given fence that the target saw
	fences  map[int64]bool
	shown   bool      // Redis showed at least one fence
	strange []strange // polls with fences that no instance was given yet
}

// strange is an instance's first poll with a fence that no instance was given yet.
type strange struct {
	inst  string
	fence int64
	n, at int64
}

func (x *given) give(fence int64) {
	if fence == 0 || x.fences[fence] {
		return
	}
	if x.fences == nil {
		x.fences = map[int64]bool{}
	}
	x.strange = slices.DeleteFunc(x.strange, func(p strange) bool { return p.fence == fence })
	x.fences[fence] = true
}

func (x *given) sees(e *history.Event) {
	known := func(p strange) bool { return p.inst == e.Instance && p.fence == e.Fence }
	switch {
	case e.Fence == 0 || e.Fence == x.polled:
	case x.fences[e.Fence]:
		x.polled = e.Fence
	case !slices.ContainsFunc(x.strange, known):
		x.strange = append(x.strange, strange{e.Instance, e.Fence, e.N, e.T})
	}
}

// heard records which fences are given, and which witnesses show them.
func (g *g3) heard(e *history.Event) {
	if e.Kind == history.Stopped {
		g.w.reporter.stopped = true
	}
	if g.w.subject == nil {
		return // a fault
	}
	x := &g.w.subject.fences.given
	switch e.Kind {
	case history.Acquired:
		x.give(e.Fence)
		if e.Fence != 0 {
			g.w.reporter.tells = true
		}
	case history.RedisFence:
		x.shown = true
		x.give(e.Fence)
	case history.Arrived, history.Rejected:
		x.sees(e)
	case history.TapDown:
		g.gap = true
	}
}

// aside records fences of another server that acts as a master.
func (g *g3) aside(e *history.Event) {
	if e.Kind == history.RedisFence {
		g.heard(e)
	}
}

// finish breaks G3 for a fence at the target that neither the instances' messages nor Redis' stream have. One of these records must be
// whole: the last messages of a process that ended without reporting its stop may be lost.
func (g *g3) finish() {
	if !g.w.ends {
		return
	}
	for _, s := range g.w.sessions.sorted() {
		x := &s.fences.given
		all := x.strange[:0]
		for _, p := range x.strange {
			i := g.w.instance(p.inst)
			if i.tells && (!i.gone || i.stopped) || x.shown && g.w.shows() && !g.gap {
				all = append(all, p)
			}
		}
		if len(all) == 0 {
			continue
		}
		p := all[0]
		g.broke(s, "%s polled session %s with fence %d at %s (poll %d), which nobody was given: neither did any instance say that it "+
			"acquired it, nor did Redis show it (%d such fences)", g.w.instance(p.inst).who(), s.id, p.fence, clock(p.at), p.n, len(all))
	}
}
