package virtual

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// strike is one fault of the plan and what it did.
type strike struct {
	fault.Fault
	active  bool
	node    int32  // -1: none
	session int32  // -1: none
	gen     uint32 // process it struck
	on      bool   // flapping: cut now
	narrow  narrow // bandwidth
	was     int64  // clock drift: the one before
	copy    *redis
}

// checkPlan refuses what no engine can strike.
func checkPlan(p fault.Plan) error {
	for i, f := range p.Faults {
		if _, ok := strikers[f.Kind]; !ok {
			return fmt.Errorf("fault %d of the plan: %w: %q cannot be struck in virtual time", i, fault.ErrUnavailable, f.Kind)
		}
		if f.At < 0 || f.For < 0 || f.Ms < 0 {
			return fmt.Errorf("fault %d of the plan (%s): %w: at, for and ms must not be negative", i, f.Kind, fault.ErrInvalid)
		}
	}
	return nil
}

// schedule makes events of the plan and the phases.
func (w *world) schedule(p fault.Plan) {
	start, calm := int64(w.cfg.Start), int64(w.cfg.Start+w.cfg.Storm)
	w.q.push(event{at: 0, kind: evPhase, arg: phaseStart})
	w.q.push(event{at: w.bucket(), kind: evCount})
	w.q.push(event{at: start, kind: evPhase, arg: phaseStorm})
	for i, f := range p.Faults {
		w.plan = append(w.plan, strike{Fault: f, node: -1, session: -1})
		at := start + int64(f.At)
		if at >= calm {
			w.out.Skipped = append(w.out.Skipped, fmt.Sprintf("%s at %v: after the storm", f.Kind, f.At))
			continue
		}
		if f.Kind == fault.RedisFailover { // first, for a replica that lags by nothing
			w.q.push(event{at: max(0, at-f.Ms*int64(time.Millisecond)), kind: evSnapshot, arg: int32(i)})
		}
		w.q.push(event{at: at, kind: evFaultStart, arg: int32(i)})
		if lasts := w.lasts(f); lasts > 0 && at+lasts < calm {
			w.q.push(event{at: at + lasts, kind: evFaultEnd, arg: int32(i)})
		}
	}
	w.q.push(event{at: calm, kind: evPhase, arg: phaseCalm})
	w.q.push(event{at: calm + int64(w.cfg.Calm), kind: evPhase, arg: phaseEnd})
}

// lasts is how long a fault is in force, 0 if it is instant.
func (w *world) lasts(f fault.Fault) int64 {
	switch f.Kind {
	case fault.RedisSlow, fault.RedisLoading:
		return f.Ms * int64(time.Millisecond)
	case fault.CheckSend:
		return int64(2 * w.cfg.TTL)
	case fault.Terminate, fault.Leave: // the clean stop decides when the next process starts
		return 0
	}
	return int64(f.For)
}

func (w *world) faultEvent(e *event) {
	s := &w.plan[e.arg]
	switch e.kind {
	case evSnapshot:
		s.copy = w.server.copyData()
	case evFaultStart:
		w.start(e.arg, s)
	case evFaultEnd:
		w.end(e.arg, s)
	case evFlap:
		if s.active && w.nodes[s.node].gen == s.gen {
			w.flap(e.arg, s)
		}
	}
}

func (w *world) start(i int32, s *strike) {
	if !w.aim(s) {
		text := fmt.Sprintf("%s at %v found no target", s.Kind, s.At)
		w.out.Skipped = append(w.out.Skipped, text)
		w.note("%s", text)
		return
	}
	s.active = true
	w.tellFault(history.FaultStart, i, s)
	strikers[s.Kind].start(w, i, s)
}

func (w *world) end(i int32, s *strike) {
	if !s.active {
		return
	}
	s.active = false
	if heal := strikers[s.Kind].end; heal != nil {
		heal(w, i, s)
	}
	w.tellFault(history.FaultEnd, i, s)
}

func (w *world) tellFault(k history.Kind, i int32, s *strike) {
	e := history.Event{Kind: k, N: int64(i), Reason: string(s.Kind)}
	if s.node >= 0 {
		e.Node, e.Instance = w.nodes[s.node].name, w.nodes[s.node].instance
	}
	if s.session >= 0 {
		e.Session = w.sess[s.session].id
	}
	w.emit(e)
}

// healAll ends every fault: what follows is the calm.
func (w *world) healAll() {
	for i := range w.plan {
		if s := &w.plan[i]; s.active && w.lasts(s.Fault) > 0 {
			w.end(int32(i), s)
		}
	}
}

// aim finds the fault's target, and says whether there is one that it can strike.
func (w *world) aim(s *strike) bool {
	switch strikers[s.Kind].hits {
	case fault.ScopeNode:
		return w.aimNode(s)
	case fault.ScopeSession:
		return w.aimSession(s)
	case fault.ScopeRedis:
		return !w.server.down
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
	if s.Target == fault.Leader {
		if n := w.leader(); n != nil {
			s.node, s.gen = int32(n.slot-1), n.gen
			return true
		}
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
	n := w.nodes[s.node]
	s.gen = n.gen
	return n.alive
}

// leader is the node that holds the first session's lease as Redis shows it; nil: none that runs.
func (w *world) leader() *node {
	if len(w.sess) == 0 {
		return nil
	}
	for _, n := range w.nodes {
		if n.alive && n.instance == w.server.leases[0].owner {
			return n
		}
	}
	return nil
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
