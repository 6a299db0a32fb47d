package check

import "github.com/leasestorm/leasestorm/sim/history"

// e2 judges that the fenced resource accepts no write of an older leader, and that two leaders never write at once. It applies G2 to the
// resource's own record. If a leader sends no fence, the order in which leaders began decides.
type e2 struct {
	g2
	terms  int64
	order  map[*instance]int64 // number of an instance's last leadership
	newest map[string]leading  // by session: the newest leader whose write was accepted
}

type leading struct {
	number int64
	inst   *instance
}

func (g *e2) attach(w *world, v Verdict) {
	g.g2.attach(w, v)
	g.order, g.newest = map[*instance]int64{}, map[string]leading{}
}

func (g *e2) began(t *term) {
	g.g2.began(t)
	g.terms++
	g.order[t.inst] = g.terms
}

func (g *e2) event(e *history.Event) {
	g.g2.event(e)
	if e.Kind != history.Arrived {
		return
	}
	inst := g.w.instance(e.Instance)
	number, newest := g.order[inst], g.newest[e.Session]
	if number < newest.number && e.Fence == 0 {
		g.older++
		g.w.subject.turns.counted(e.N)
		g.broke(g.w.subject, "the resource accepted write %d of %s at %s, without a fence, although %s leads since and "+
			"has written: an older leader's write", e.N, inst.who(), clock(e.T), newest.inst.who())
	}
	if number > newest.number {
		g.newest[e.Session] = leading{number, inst}
	}
}
