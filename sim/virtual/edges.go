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

// edges moves messages and faults to instants that matter.
type edges struct {
	storm *storm
	r     *rand.Rand
	near  []int64 // candidate instants, reused
}

// beside draws an instant just before, at or just after at.
func (e *edges) beside(at int64) int64 {
	by := []time.Duration{time.Microsecond, 100 * time.Microsecond, time.Millisecond}[e.r.IntN(3)]
	return at + int64(e.r.IntN(3)-1)*int64(by)
}

// mostHeld bounds how long a message is held back. It must stay below the allowances of the guarantees.
const mostHeld = 30 * time.Millisecond

// held returns the new arrival time of a message that is due at the time at.
func (e *edges) held(at int64, op *core.Op) int64 {
	if !chance(e.r, e.storm.cfg.Net.Edge) {
		return at
	}
	e.collect(at, at+min(int64(e.storm.cfg.TTL)/100, int64(mostHeld)))
	for _, item := range op.Items {
		if end, ok := e.storm.servers.master.EndOf(e.storm.t, item.ID); ok {
			e.candidate(end, at, at+int64(mostHeld))
		}
	}
	return max(e.storm.t, e.drawn(at))
}

// postponed moves the beginning or end of a fault once, by at most a renewal interval, and reports whether it did.
func (e *edges) postponed(kind uint8, s *injection) bool {
	if s.moved[kind-evFaultStart] || s.Kind.Has(fault.FailsOver) || e.r.IntN(2) == 0 {
		return false
	}
	s.moved[kind-evFaultStart] = true
	from, to := e.storm.t, min(e.storm.t+int64(e.storm.cfg.Renew), e.storm.calm()-1)
	e.collect(from, to)
	e.storm.servers.master.Ends(e.storm.t, func(at int64) { e.candidate(at, from, to) })
	if n := e.storm.fleet.nodes[e.r.IntN(len(e.storm.fleet.nodes))]; n.alive && n.tickAt != 0 { // its next discovery, renewal or timeout
		e.candidate(n.tickAt, from, to)
	}
	at := min(e.drawn(e.storm.t), to)
	if at <= e.storm.t {
		return false
	}
	e.storm.q.Push(loop.Event{At: at, Kind: kind, Arg: s.number})
	return true
}

// collect gathers the instants between from and to that concern all instances: the quarantine's end, and beginnings and ends of faults.
func (e *edges) collect(from, to int64) {
	e.near = e.near[:0]
	if end, ok := e.storm.servers.master.QuarantineEnd(e.storm.t); ok {
		e.candidate(end, from, to)
	}
	for i := range e.storm.plan {
		s := &e.storm.plan[i]
		at := int64(e.storm.cfg.Start + s.At)
		e.candidate(at, from, to)
		e.candidate(at+e.storm.lasts(s.Fault), from, to)
	}
}

func (e *edges) candidate(at, from, to int64) {
	if from <= at && at <= to {
		e.near = append(e.near, at)
	}
}

// drawn draws an instant beside a gathered one. If no instant was gathered, it returns the argument without.
func (e *edges) drawn(without int64) int64 {
	near := e.near
	if len(near) == 0 {
		return without
	}
	slices.Sort(near)
	near = slices.Compact(near)
	return e.beside(near[e.r.IntN(len(near))])
}
