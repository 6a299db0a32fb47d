package check

import (
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g11 judges that 10 or more instances work without configured counts, and that instances join and leave at run time. The other
// guarantees judge that they work together. g11 requires that so many took part, that one joined and acquired a lease, and that one left.
type g11 struct {
	hooks
	most    int
	waiting map[*instance]*newcomer // newcomers without a lease
	joins   int
	leaves  int
}

type newcomer struct {
	inst *instance
	join *injection
	at   int64 // time of its ready message
}

func (g *g11) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.waiting = map[*instance]*newcomer{}
}

func (g *g11) event(e *history.Event) {
	switch e.Kind {
	case history.Ready, history.Exited, history.Stopped:
	default:
		return
	}
	g.most = max(g.most, g.w.alive)
	if e.Kind != history.Ready || g.w.phase != "storm" {
		return
	}
	if i := g.w.instance(e.Instance); i.readies == 1 {
		g.joined(i)
	}
}

func (g *g11) joined(i *instance) {
	var join *injection
	for _, inj := range slices.Backward(g.w.injections) {
		if inj.has(fault.Starts) && inj.node != nil && inj.node == i.node {
			join = inj
			break
		}
	}
	if join == nil || g.w.existing < len(g.w.rest.live())+1 {
		return // another cause started it, or there is no work for it
	}
	n := &newcomer{inst: i, join: join, at: g.w.now}
	g.waiting[i] = n
	g.w.await(func() (promise, bool) {
		// Other newcomers may have taken the work.
		return g.promise(n), g.waiting[i] == n && !i.gone && g.w.phase != "end" && g.w.existing >= len(g.w.rest.live())
	}, func(limit int64, excused *injection) {
		delete(g.waiting, i)
		if excused != nil {
			g.excuse(excused)
			return
		}
		g.exercised++
		g.near(g.w.now-n.at, limit)
		g.breach(breach{from: n.at, due: n.at + limit, by: n.join, who: []*instance{i}},
			"%s joined at %s and has acquired nothing by %s", i.who(), clock(n.at), clock(g.w.now))
	})
}

func (g *g11) promise(n *newcomer) promise {
	settle := int64(g.w.TTL) + g.w.settle()
	return promise{from: n.at, base: n.at, by: n.at + settle, settle: settle, but: n.join}
}

func (g *g11) began(t *term) {
	n := g.waiting[t.inst]
	if n == nil {
		return
	}
	delete(g.waiting, t.inst)
	if _, stands := g.held(g.promise(n)); stands != unjudged { // else it was counted when it was overdue
		g.joins++
	}
}

func (g *g11) ended(t *term, how ending) {
	n := t.inst.node
	if n != nil && n.asked != nil && n.asked.Kind == fault.Leave && how == endReleased && len(t.inst.held) == 0 {
		g.leaves++
		g.exercised++
	}
}

func (g *g11) verdict() Verdict {
	switch {
	case int64(g.most) < g.v.Limit:
		g.untested = fmt.Sprintf("it takes %d instances, a join and a leave", g.v.Limit)
	case g.joins == 0 || g.leaves == 0:
		g.untested = "it takes a join and a leave"
	}
	v := g.hooks.verdict()
	v.Value = int64(g.most)
	v.Detail = join(v.Detail, fmt.Sprintf("%d instances at once, %d joined and took leases, %d left", g.most, g.joins, g.leaves))
	return v
}
