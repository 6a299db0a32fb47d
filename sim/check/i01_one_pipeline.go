package check

import "github.com/leasestorm/leasestorm/sim/history"

// i1 judges that neither a tuner slot nor a service ever serves two pipelines at once. The evidence is the tuners' own record: when each
// pipeline arrived at a slot, for which service, and with which fences of the slot's and the service's lease. A pipeline is served until
// it ends, its connection breaks, or a pipeline with a newer fence takes its place. i1 ignores the nodes' messages, but excuses processes
// that the plan had frozen.
type i1 struct {
	intentRule
	newest   map[string]*pipeline // the accepted pipeline with the highest fence, by place
	streams  int
	rejected int
	late     int // refused pipelines of processes that had been frozen
	frozen   int // overlaps with the pipeline of a frozen process
}

func (g *i1) event(e *history.Event) {
	g.book.take(e)
	switch e.Kind {
	case history.Arrived:
		g.arrived(g.book.pipelines[len(g.book.pipelines)-1])
	case history.Rejected:
		g.rejected++
		g.exercise("")
		if g.w.fleet.sentAsleep(e.Instance, e.T, e.T) {
			g.late++
		}
	}
}

func (g *i1) aside(e *history.Event) { g.book.aside(e) }

func (g *i1) arrived(p *pipeline) {
	g.streams++
	s, who, last := g.w.subject, g.w.fleet.who(p.inst), g.newest[p.place]
	if last != nil && (last.inst != p.inst || last.fence != p.fence) {
		g.exercise("")
		if p.fence <= last.fence {
			g.broke(s, "%s accepted pipeline %d of %s with fence %d at %s, after it had accepted fence %d of %s", s.id, p.n, who, p.fence,
				clock(p.at), last.fence, g.w.fleet.who(last.inst))
		}
	}
	if last == nil || p.fence >= last.fence {
		g.newest[p.place] = p
	}
	for _, a := range g.book.pipelines {
		switch {
		case a.place != p.place || a == p:
		case g.w.fleet.sentAsleep(a.inst, a.at, p.at), g.w.fleet.sentAsleep(p.inst, p.at, p.at):
			g.frozen++
		default:
			g.broke(s, "%s served pipeline %d of %s (fence %d, since %s) when pipeline %d of %s (fence %d) began at %s: two at once, and "+
				"the plan had frozen neither", s.id, a.n, g.w.fleet.who(a.inst), a.fence, clock(a.at), p.n, who, p.fence, clock(p.at))
		}
	}
}

func (g *i1) finish() {
	if g.streams == 0 {
		g.untested = "the tuners saw no pipeline"
		return
	}
	g.note("%d times a slot or a service was taken, %d times refused by fence; of frozen processes: begun late and refused %d, still "+
		"serving when the next began %d", g.streams, g.rejected, g.late, g.frozen)
}
