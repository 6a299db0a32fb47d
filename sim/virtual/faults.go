package virtual

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

func (w *world) schedule(p fault.Plan) {
	start, calm := int64(w.cfg.Start), w.calm()
	w.q.Push(loop.Event{At: 0, Kind: evPhase, Arg: phaseStart})
	w.q.Push(loop.Event{At: w.bucket(), Kind: evCount})
	w.q.Push(loop.Event{At: start, Kind: evPhase, Arg: phaseStorm})
	for i, f := range p.Faults {
		w.plan = append(w.plan, strike{Interval: p.Interval(i), number: int32(i), node: -1, session: -1})
		if f.Target == fault.Same {
			w.plan[i].lead = fault.Lead(p.Faults, i)
		}
		at := start + int64(f.At)
		if at >= calm {
			w.out.Skipped = append(w.out.Skipped, fmt.Sprintf("%s at %v: after the storm", f.Kind, f.At))
			continue
		}
		if f.Kind == fault.RedisFailover { // before evFaultStart, in case the lag is 0
			w.q.Push(loop.Event{At: max(0, at-f.Ms*int64(time.Millisecond)), Kind: evSnapshot, Arg: int32(i)})
		}
		w.q.Push(loop.Event{At: at, Kind: evFaultStart, Arg: int32(i)})
	}
	w.q.Push(loop.Event{At: calm, Kind: evPhase, Arg: phaseCalm})
	w.q.Push(loop.Event{At: calm + int64(w.cfg.Calm), Kind: evPhase, Arg: phaseEnd})
}

func (w *world) faultEvent(e *loop.Event) {
	s := &w.plan[e.Arg]
	switch e.Kind {
	case evSnapshot:
		s.copy = w.server.Copy()
	case evFaultStart, evFaultEnd:
		if w.postponed(e.Kind, s) {
			return
		}
		if e.Kind == evFaultStart {
			w.start(s)
		} else {
			w.end(s)
		}
	case evFlap:
		if s.active && w.nodes[s.node].gen == s.gen {
			w.flap(s)
		}
	}
}

func (w *world) start(s *strike) {
	s.server = w.server
	if !w.aim(s) {
		if w.tryAgain(s) {
			return
		}
		text := fmt.Sprintf("%s at %v found no target", s.Kind, s.At)
		w.out.Skipped = append(w.out.Skipped, text)
		w.note("%s", text)
		return
	}
	lasts := w.lasts(s.Fault)
	if lasts > 0 && w.t+lasts < w.calm() {
		w.q.Push(loop.Event{At: w.t + lasts, Kind: evFaultEnd, Arg: s.number})
	}
	s.active = true
	w.tellFault(history.FaultStart, s)
	strikers[s.Kind].start(w, s)
	if lasts == 0 && !s.Has(fault.Instant) { // it is over as it hits
		w.end(s)
	}
}

// tryAgain postpones a fault of an owner while there is no owner, by a renewal interval at most.
func (w *world) tryAgain(s *strike) bool {
	next := w.t + int64(fault.Retry(w.cfg.Renew))
	if !s.Aims() || next > int64(w.cfg.Start+s.At+w.cfg.Renew) || next >= w.calm() {
		return false
	}
	w.q.Push(loop.Event{At: next, Kind: evFaultStart, Arg: s.number})
	return true
}

func (w *world) end(s *strike) {
	if !s.active {
		return
	}
	s.active = false
	if heal := strikers[s.Kind].end; heal != nil {
		heal(w, s)
	}
	w.tellFault(history.FaultEnd, s)
}

func (w *world) tellFault(k history.Kind, s *strike) {
	e := history.Event{Kind: k, N: int64(s.number), Reason: string(s.Kind)}
	if s.node >= 0 {
		e.Node, e.Instance = w.nodes[s.node].name, w.nodes[s.node].instance
	}
	if s.session >= 0 {
		e.Session = w.sess[s.session].id
	}
	w.emit(e)
}

func (w *world) healAll() {
	for i := range w.plan {
		if s := &w.plan[i]; s.active && w.lasts(s.Fault) > 0 {
			w.end(s)
		}
	}
}

func (w *world) aim(s *strike) bool {
	switch s.Kind.Scope() {
	case fault.ScopeNode:
		return w.aimNode(s)
	case fault.ScopeSession:
		return w.aimSession(s)
	case fault.ScopeRedis:
		return !w.server.down
	case fault.ScopeServers:
		return w.aimServer(s)
	}
	return true
}

func (w *world) aimNode(s *strike) bool {
	if s.Kind == fault.Join {
		if i, ok := fault.NodeIndex(s.Target); ok && i <= len(w.nodes) {
			if w.nodes[i-1].alive {
				return false
			}
			s.node = int32(i - 1)
			return true
		}
		s.node = int32(w.addNode(w.pick).slot - 1)
		return true
	}
	if s.Target == fault.Same {
		s.node = w.plan[s.lead].node
		return s.node >= 0 && w.strikes(s)
	}
	if s.Aims() {
		slot, ok := fault.Resolve(s.Target, w.owners(), w.atHand)
		if ok {
			s.node, s.gen = int32(slot-1), w.nodes[slot-1].gen
		}
		return ok
	}
	if i, ok := fault.NodeIndex(s.Target); ok {
		if i < 1 || i > len(w.nodes) {
			return false
		}
		s.node = int32(i - 1)
	} else {
		var live []int32
		for i, n := range w.nodes {
			if n.alive && !n.draining {
				live = append(live, int32(i))
			}
		}
		if len(live) == 0 {
			return false
		}
		s.node = live[w.pick.IntN(len(live))]
	}
	return w.strikes(s)
}

// strikes records the process in the fault's slot and reports whether it runs.
func (w *world) strikes(s *strike) bool {
	n := w.nodes[s.node]
	s.gen = n.gen
	return n.alive
}

// owners returns the slots of the owners in Redis, 0 for an owner that does not run.
func (w *world) owners() []int {
	slots := make(map[string]int, len(w.nodes))
	for _, n := range w.nodes {
		if n.alive {
			slots[n.instance] = n.slot
		}
	}
	var owners []int
	for _, owner := range w.server.Owners() {
		owners = append(owners, slots[owner])
	}
	return owners
}

// atHand reports whether a fault of an owner may strike the slot: its process runs, and no lasting fault affects it.
func (w *world) atHand(slot int) bool {
	if slot > len(w.nodes) || !w.nodes[slot-1].alive || w.nodes[slot-1].draining {
		return false
	}
	for i := range w.plan {
		if s := &w.plan[i]; s.active && int(s.node) == slot-1 && w.lasts(s.Fault) > 0 {
			return false
		}
	}
	return true
}

func (w *world) aimSession(s *strike) bool {
	if s.Kind == fault.SessionAdd {
		return true
	}
	if i, ok := fault.SessionIndex(s.Target); ok {
		if i < 1 || i > len(w.sess) {
			return false
		}
		s.session = int32(i - 1)
		return !w.sess[s.session].gone
	}
	var there []int32
	for i := range w.sess {
		if !w.sess[i].gone {
			there = append(there, int32(i))
		}
	}
	if len(there) == 0 {
		return false
	}
	s.session = there[w.pick.IntN(len(there))]
	return true
}
