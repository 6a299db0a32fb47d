package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g3 judges that fences of a lease strictly increase with each new term, also across the loss of all Redis data. It has three witnesses:
// the owners (each acquired), the target (one fence comes from one instance) and Redis (no fence is set below an earlier one).
type g3 struct {
	hooks
	losses  int64
	across  int // terms that followed a loss
	without int
	late    int  // terms reported after a later one, whose key the plan had deleted
	gap     bool // Redis' stream has a gap
}

type fences struct {
	last   int64 // fence of the last term
	holder *instance
	losses int64
	polled int64 // highest fence at the target
	poller string
	set    int64  // highest fence in Redis
	setFor string // instance that set was granted to
	heldBy string // owner that Redis shows
	given  given
}

func (g *g3) injected(inj *injection) {
	if inj.forgets() {
		g.losses++
	}
}

func (g *g3) began(t *term) {
	if t.fence == 0 {
		g.without++
		return
	}
	f := &t.session.fences
	if f.holder != nil {
		g.exercise(t.challenged)
		if f.losses != g.losses {
			g.across++
		}
		switch {
		case t.fence > f.last:
		case t.fence < f.last && t.session.deletedWithin(g.w.now-int64(g.w.TTL), g.w.now): // granted before the deletion, reported late
			g.late++
		default:
			g.broke(t.session, "the term that %s began for session %s at %s has fence %d, the one before it (%s) had %d: it must "+
				"be larger", t.inst.who(), t.session.id, clock(t.since), t.fence, f.holder.who(), f.last)
		}
	}
	f.last, f.holder, f.losses = max(f.last, t.fence), t.inst, g.losses
}

func (g *g3) event(e *history.Event) {
	g.heard(e)
	switch e.Kind {
	case history.Arrived, history.Rejected:
		f := &g.w.subject.fences
		if e.Fence != 0 && e.Fence == f.polled && f.poller != e.Instance {
			g.broke(g.w.subject, "%s and %s polled session %s with one fence, %d; the second at %s",
				g.w.instance(f.poller).who(), g.w.instance(e.Instance).who(), e.Session, e.Fence, clock(e.T))
		}
		if e.Fence > f.polled {
			f.polled, f.poller = e.Fence, e.Instance
		}
	case history.RedisGranted:
		g.w.subject.fences.heldBy = e.Instance
	case history.RedisFence:
		if !g.w.replicated() {
			g.set(e)
		}
	}
}

// set checks a fence that Redis was given. The fence may fall if no instance ever had the higher one: an abandoned attempt to acquire
// that is executed late leaves a higher fence behind. If Redis forgets that fence, the owner asserts the one that it knows.
func (g *g3) set(e *history.Event) {
	f := &g.w.subject.fences
	unheard := f.setFor == f.heldBy && f.last < f.set
	if e.Fence < f.set && !unheard && len(g.w.subject.deletes) == 0 {
		g.broke(g.w.subject, "at %s Redis' fence of session %s fell from %d to %d", clock(e.T), e.Session, f.set,
			e.Fence)
	}
	if e.Fence > f.set {
		f.set, f.setFor = e.Fence, f.heldBy
	}
}

func (g *g3) verdict() Verdict {
	if g.exercised == 0 && g.without > 0 {
		g.untested = fmt.Sprintf("the nodes give no fence (%d terms without)", g.without)
	}
	v := g.hooks.verdict()
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("%d new terms, %d of them the first after Redis restarted or lost its data", g.exercised,
			g.across), v.Detail)
	}
	if g.late > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d granted before their key was deleted by hand and reported after the next", g.late))
	}
	return v
}
