package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g3: fences of a lease strictly increase with each new term, also across the loss of all Redis data.
//
// Three witnesses are heard: the owners (each acquired), the target (one fence comes from one instance), and Redis, where
// it was watched (a fence that is set is not below one that was).
type g3 struct {
	hooks
	leases  map[string]*fences
	losses  int64           // times at which Redis lost everything, so far
	across  int             // terms that followed such a loss
	without int             // terms whose owner gives no fence
	broken  map[string]bool // sessions of which a term has no larger fence than the one before
}

// fences is what is known of one lease's fences.
type fences struct {
	last   int64 // of the last term
	holder *instance
	losses int64
	polled int64 // highest fence seen at the target
	poller string
	set    int64 // highest fence seen at Redis
}

func (g *g3) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.leases, g.broken = map[string]*fences{}, map[string]bool{}
}

func (g *g3) lease(session string) *fences {
	f := g.leases[session]
	if f == nil {
		f = &fences{}
		g.leases[session] = f
	}
	return f
}

func (g *g3) struck(s *strike) {
	if s.forgets() {
		g.losses++
	}
}

func (g *g3) began(t *term) {
	if t.fence == 0 {
		g.without++
		return
	}
	f := g.lease(t.session.id)
	if f.holder != nil {
		g.exercised++
		if f.losses != g.losses {
			g.across++
		}
		if t.fence <= f.last {
			g.broken[t.session.id] = true
			g.broke(t.session, "the term that %s began for session %s at %s has fence %d, the one before it (%s) had %d: it must "+
				"be larger", t.inst.who(), t.session.id, clock(t.since), t.fence, f.holder.who(), f.last)
		}
	}
	f.last, f.holder, f.losses = max(f.last, t.fence), t.inst, g.losses
}

func (g *g3) event(e *history.Event) {
	switch e.Kind {
	case history.Arrived, history.Rejected:
		f := g.lease(e.Session)
		if e.Fence != 0 && e.Fence == f.polled && f.poller != e.Instance {
			g.broke(g.w.session(e.Session), "%s and %s polled session %s with one fence, %d; the second at %s",
				g.w.instance(f.poller).who(), g.w.instance(e.Instance).who(), e.Session, e.Fence, clock(e.T))
		}
		if e.Fence > f.polled {
			f.polled, f.poller = e.Fence, e.Instance
		}
	case history.RedisFence:
		f := g.lease(e.Session)
		if e.Fence < f.set && len(g.w.session(e.Session).deletes) == 0 {
			g.broke(g.w.session(e.Session), "at %s Redis' fence of session %s fell from %d to %d", clock(e.T), e.Session, f.set,
				e.Fence)
		}
		f.set = max(f.set, e.Fence)
	}
}

func (g *g3) verdict() Verdict {
	if g.exercised == 0 && g.without > 0 {
		g.untested = fmt.Sprintf("the nodes give no fence (%d terms without)", g.without)
	}
	v := g.hooks.verdict()
	v.Value = int64(g.breaks)
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("%d new terms, %d of them the first after Redis restarted or lost its data", g.exercised,
			g.across), v.Detail)
	}
	return v
}
