package virtual

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// Uniform draws seldom reach the limits of a guarantee. In a run at the edges (Net.Edge, Clock.Edge), messages arrive and faults begin
// and end just before, at or just after the instants that matter.

const streamEdges = 0x6564676573

func newEdges(cfg Config, seed uint64) *edges {
	if cfg.Net.Edge == 0 {
		return nil
	}
	return &edges{r: rand.New(rand.NewPCG(seed, streamEdges))}
}

// beside draws an instant just before, at or just after at.
func (e *edges) beside(at int64) int64 {
	by := []time.Duration{time.Microsecond, 100 * time.Microsecond, time.Millisecond}[e.r.IntN(3)]
	return at + int64(e.r.IntN(3)-1)*int64(by)
}

// mostHeld bounds how long a message is held back. It must stay below the allowances of the guarantees.
const mostHeld = 30 * time.Millisecond

// held returns the new arrival time of a message due at at.
func (w *world) held(at int64, op *core.Op) int64 {
	if w.edges == nil || !chance(w.edges.r, w.cfg.Net.Edge) {
		return at
	}
	w.collect(at, at+min(int64(w.cfg.TTL)/100, int64(mostHeld)))
	for _, item := range op.Items {
		if end, ok := w.server.EndOf(w.t, item.ID); ok {
			w.candidate(end, at, at+int64(mostHeld))
		}
	}
	return max(w.t, w.drawn(at))
}

// postponed moves the beginning or end of a fault once, by at most a renewal interval, and reports whether it did.
func (w *world) postponed(kind uint8, s *strike) bool {
	if w.edges == nil || s.moved[kind-evFaultStart] || s.Kind.Has(fault.FailsOver) || w.edges.r.IntN(2) == 0 {
		return false
	}
	s.moved[kind-evFaultStart] = true
	from, to := w.t, min(w.t+int64(w.cfg.Renew), w.calm()-1)
	w.collect(from, to)
	w.server.Ends(w.t, func(at int64) { w.candidate(at, from, to) })
	if n := w.nodes[w.edges.r.IntN(len(w.nodes))]; n.alive && n.tickAt != 0 { // its next discovery, renewal or timeout
		w.candidate(n.tickAt, from, to)
	}
	at := min(w.drawn(w.t), to)
	if at <= w.t {
		return false
	}
	w.q.Push(loop.Event{At: at, Kind: kind, Arg: s.number})
	return true
}

// collect gathers the instants between from and to that concern all instances: the quarantine's end, and beginnings and ends of faults.
func (w *world) collect(from, to int64) {
	w.edges.near = w.edges.near[:0]
	if end, ok := w.server.QuarantineEnd(w.t); ok {
		w.candidate(end, from, to)
	}
	for i := range w.plan {
		s := &w.plan[i]
		at := int64(w.cfg.Start + s.At)
		w.candidate(at, from, to)
		w.candidate(at+w.lasts(s.Fault), from, to)
	}
}

func (w *world) candidate(at, from, to int64) {
	if from <= at && at <= to {
		w.edges.near = append(w.edges.near, at)
	}
}

// drawn draws an instant beside a gathered one. If there is none, it returns without.
func (w *world) drawn(without int64) int64 {
	near := w.edges.near
	if len(near) == 0 {
		return without
	}
	slices.Sort(near)
	near = slices.Compact(near)
	return w.edges.beside(near[w.edges.r.IntN(len(near))])
}
