package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g11 judges that 10 or more instances work without configured counts, and that instances join and leave at run time. The other
// guarantees judge that they work together. g11 requires that so many took part, that one joined and acquired a lease, and that one left.
type g11 struct {
	hooks
	most    int
	waiting map[*instance]*wait // newcomers without a lease
	joins   int
	leaves  int
}

func (g *g11) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.waiting = map[*instance]*wait{}
}

func (g *g11) event(e *history.Event) {
	g.most = max(g.most, g.w.fleet.alive)
	if e.Kind == history.Ready && g.w.phase == "storm" && g.w.reporter.since == e.T {
		g.joined(g.w.reporter)
	}
}

func (g *g11) joined(i *instance) {
	var join *injection
	for _, inj := range g.w.faults.all {
		if inj.Has(fault.Starts) && inj.node != nil && inj.node == i.node {
			join = inj
		}
	}
	spare := func() int { // sessions beyond one for each instance
		live, _ := g.w.rest.live()
		return g.w.fleet.existing - len(live)
	}
	if join == nil || spare() < 1 {
		return // another cause started it, or there is no work for it
	}
	at, settle := g.w.now, int64(g.w.TTL)+g.w.Settle()
	g.waiting[i] = g.expect(wait{
		now:     func() promise { return promise{from: at, base: at, by: at + settle, settle: settle, but: join} },
		pending: func() bool { return !i.gone && spare() >= 0 }, // other newcomers may have taken the work
		missed: func(limit int64) {
			g.breach(breach{from: at, due: at + limit, by: join, who: []*instance{i}},
				"%s joined at %s and has acquired nothing by %s", i.who(), clock(at), clock(g.w.now))
		},
	})
}

func (g *g11) began(t *term) {
	if x := g.waiting[t.inst]; x != nil {
		if _, _, stands := x.came(); stands != unjudged { // else it was counted before
			g.joins++
		}
	}
}

func (g *g11) ended(t *term, how ending) {
	leave := t.inst.leave
	if leave != nil && leave.Kind == fault.Leave && how == endReleased && len(t.inst.held) == 0 {
		g.leaves++
		g.exercise("")
	}
}

func (g *g11) finish() {
	if int64(g.most) < g.v.Limit || g.joins == 0 || g.leaves == 0 {
		g.untested = fmt.Sprintf("it takes %d instances, a join and a leave", g.v.Limit)
	}
	g.v.Value = int64(g.most)
	g.note("%d joined and took leases, %d left", g.joins, g.leaves)
}
