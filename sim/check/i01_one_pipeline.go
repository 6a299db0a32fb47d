package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// arrival is an accepted pipeline.
type arrival struct {
	n     int64
	inst  string
	fence int64
	at    int64
}

// i1 judges that a tuner slot, and a service, never serves two pipelines at once. It uses the tuners' own record. A pipeline arrives at a
// slot for a service, under the fences of both leases. It is served until it lets go, breaks off, or a newer fence pushes it out. The
// nodes' messages are not used, but the freezes of the plan are.
type i1 struct {
	hooks
	book     *intents
	places   map[string]*place
	streams  int
	rejected int
	late     int // refused pipelines of processes that had been frozen
	frozen   int // overlaps with the pipeline of a frozen process
}

type place struct {
	fence   int64
	holder  string
	last    arrival
	serving []arrival
}

func (g *i1) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.book.w = w
	g.places = map[string]*place{}
}

func (g *i1) place(name string) *place {
	p := g.places[name]
	if p == nil {
		p = &place{}
		g.places[name] = p
	}
	return p
}

func (g *i1) event(e *history.Event) {
	g.book.take(e)
	switch e.Kind {
	case history.Arrived:
		g.arrived(g.place(e.Session), e)
	case history.Served, history.Aborted:
		g.leave(g.place(e.Session), func(a arrival) bool { return a.n == e.N })
	case history.Exited: // an ended process uses nothing, even if its connections are not closed yet
		for _, name := range sortedKeys(g.places) {
			g.leave(g.places[name], func(a arrival) bool { return a.inst == e.Instance })
		}
	case history.Rejected:
		g.rejected++
		g.exercised++
		if g.w.frozenSince(e.Instance, e.T-sentLate) {
			g.late++
		}
	}
}

func (g *i1) aside(e *history.Event) { g.book.aside(e) }

func (g *i1) leave(p *place, match func(arrival) bool) {
	kept := p.serving[:0]
	for _, a := range p.serving {
		if !match(a) {
			kept = append(kept, a)
		}
	}
	p.serving = kept
}

func (g *i1) arrived(p *place, e *history.Event) {
	g.streams++
	if p.last.inst != "" && (p.last.inst != e.Instance || p.last.fence != e.Fence) {
		g.exercised++
	}
	s := g.w.session(e.Session)
	switch {
	case e.Fence == 0:
	case e.Fence < p.fence, e.Fence == p.fence && p.holder != e.Instance:
		g.broke(s, "%s accepted pipeline %d of %s with fence %d at %s, after it had accepted fence %d of %s", s.id, e.N,
			g.w.instance(e.Instance).who(), e.Fence, clock(e.T), p.fence, g.w.instance(p.holder).who())
	}
	if e.Fence > p.fence {
		p.fence, p.holder = e.Fence, e.Instance
	}
	for _, a := range p.serving {
		if g.w.frozenSince(a.inst, a.at-sentLate) || g.w.frozenSince(e.Instance, e.T-sentLate) {
			g.frozen++
			continue
		}
		g.broke(s, "%s served pipeline %d of %s (fence %d, since %s) when pipeline %d of %s (fence %d) began at %s: two at once, and "+
			"the plan had frozen neither", s.id, a.n, g.w.instance(a.inst).who(), a.fence, clock(a.at), e.N,
			g.w.instance(e.Instance).who(), e.Fence, clock(e.T))
	}
	p.last = arrival{e.N, e.Instance, e.Fence, e.T}
	p.serving = append(p.serving, p.last)
}

func (g *i1) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = int64(g.breaks)
	if g.streams == 0 {
		v.Detail = "the tuners saw no pipeline"
		return v
	}
	v.Detail = join(v.Detail, fmt.Sprintf("%d times a slot or a service was taken, %d times refused by fence; of frozen processes: "+
		"begun late and refused %d, still serving when the next began %d", g.streams, g.rejected, g.late, g.frozen))
	return v
}
