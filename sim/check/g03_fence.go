package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g3 promises that the fences of a lease strictly increase with each new term, also across the loss of all Redis data. No instance polls
// with a fence that it was not given.
//
// The queries, for each lease:
//   - Each term has a higher fence than all terms before it.
//   - The highest fence that the target has seen came from one instance.
//   - Redis' fence falls only if no instance ever reported the higher one.
//   - Each fence at the target was reported by an instance as it acquired the lease, or was set in Redis.
type g3 struct {
	hooks
	across  int // terms that followed a loss
	without int
	late    int  // terms reported after a later one, whose key the plan had deleted
	gap     bool // Redis' stream has a gap
}

// fenceSet is a fence that Redis was given.
type fenceSet struct {
	fence  int64
	at     int64
	seen   int32
	holder string // last known holder of the lease
}

func (g *g3) event(e *history.Event) {
	switch e.Kind {
	case history.RedisFence:
		s, holder := g.w.subject, ""
		if k := cmp.Or(s.granted, s.before); k != nil {
			holder = k.holder
		}
		s.fences = append(s.fences, fenceSet{e.Fence, e.T, g.w.seen, holder})
	case history.TapDown:
		g.gap = true
	}
}

// aside records fences of another server that acts as a master.
func (g *g3) aside(e *history.Event) {
	if e.Kind == history.RedisFence {
		g.event(e)
	}
}

func (g *g3) finish() {
	for _, s := range g.w.fleet.sorted() {
		reported := g.terms(s)
		g.senders(s)
		if !g.w.replicated() {
			g.falls(s, reported)
		}
		for _, x := range s.fences {
			reported[x.fence] = true
		}
		if g.w.progress.ends {
			g.strange(s, reported)
		}
	}
	switch {
	case g.exercised > 0:
		g.note("%d new terms, %d of them the first after Redis restarted or lost its data", g.exercised, g.across)
	case g.without > 0:
		g.untested = fmt.Sprintf("the nodes give no fence (%d terms without)", g.without)
	}
	g.noteSome(g.late, "%d granted before their key was deleted by hand and reported after the next")
}

// terms judges the fences of the terms, and returns the set of them.
func (g *g3) terms(s *session) map[int64]bool {
	fences := map[int64]bool{}
	var top, last *term // the term with the highest fence, and the last one with any
	for _, t := range s.history {
		switch {
		case t.unsaid:
			continue
		case t.fence == 0:
			g.without++
			continue
		case top == nil:
			top = t
		default:
			g.exercise(t.challenged)
			if slices.ContainsFunc(g.w.faults.losses, func(loss *injection) bool { return last.since < loss.From && loss.From <= t.since }) {
				g.across++
			}
			switch {
			case t.fence > top.fence:
				top = t
			case t.fence < top.fence && g.w.allows(lateReports) && s.deletedWithin(t.since-int64(g.w.TTL), t.since):
				g.late++
			default:
				g.breach(breach{session: s, from: t.since, at: t.since, seen: t.seen, terms: []*term{top, t}},
					"the term that %s began for session %s at %s has fence %d, the one before it (%s) had %d: it must be larger",
					t.inst.who(), s.id, clock(t.since), t.fence, top.inst.who(), top.fence)
			}
		}
		fences[t.fence], last = true, t
	}
	return fences
}

func (g *g3) senders(s *session) {
	top := &poll{}
	for _, p := range s.polls {
		if p.fence != 0 && p.fence == top.fence && p.inst != top.inst {
			parts := []*term{g.w.fleet.part(s, top.inst, top.fence), g.w.fleet.part(s, p.inst, p.fence)}
			g.breach(breach{session: s, from: p.at, at: p.at, seen: p.seen, terms: parts},
				"%s and %s polled session %s with one fence, %d; the second at %s", g.w.fleet.who(top.inst), g.w.fleet.who(p.inst),
				s.id, p.fence, clock(p.at))
		}
		if p.fence > top.fence {
			top = p
		}
	}
}

// falls finds writes that lowered a lease's fence in Redis. It allows one: an abandoned attempt, executed late, set a fence that its own
// instance never reported; after a loss of data, this instance asserts the lower fence of its term.
func (g *g3) falls(s *session, reported map[int64]bool) {
	var top fenceSet
	for _, x := range s.fences {
		if x.fence < top.fence && (reported[top.fence] || x.holder != top.holder) && !s.deletedWithin(0, x.at) {
			parts := []*term{g.w.fleet.part(s, top.holder, top.fence), g.w.fleet.part(s, x.holder, x.fence)}
			g.breach(breach{session: s, from: x.at, at: x.at, seen: x.seen, terms: parts},
				"at %s Redis' fence of session %s fell from %d to %d", clock(x.at), s.id, top.fence, x.fence)
		}
		if x.fence > top.fence {
			top = x
		}
	}
}

// strange judges the fences at the target that neither the instances' messages nor Redis' stream have. It judges only if one of
// these two records is complete: the last messages of a process that ended without reporting its stop may be lost.
func (g *g3) strange(s *session, given map[int64]bool) {
	whole := len(s.fences) > 0 && g.w.shows() && !g.gap
	for _, p := range s.polls {
		i := g.w.fleet.instance(p.inst)
		if p.fence == 0 || given[p.fence] || !whole && (!i.tells || i.gone && !i.stopped && g.w.allows(lostMessages)) {
			continue
		}
		g.breach(breach{session: s, from: p.at, at: g.w.now, seen: p.seen, terms: []*term{g.w.fleet.part(s, p.inst, p.fence)}},
			"%s polled session %s with fence %d at %s (poll %d), which nobody was given: neither did any instance say that it acquired it, nor "+
				"did Redis show it", i.who(), s.id, p.fence, clock(p.at), p.n)
		return // one break for each lease
	}
}
