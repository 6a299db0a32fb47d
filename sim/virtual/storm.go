package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// storm injects the faults of the plan.
type storm struct {
	*timeline
	net     *network
	servers *servers
	fleet   *fleet
	app     *application
	oracle  *oracle
	plan    []injection
	edges   *edges     // nil: faults are not moved to edges
	pick    *rand.Rand // for targets of faults
}

type injection struct {
	fault.Interval
	number  int32 // in storm.plan
	active  bool
	node    int32  // -1: none
	session int32  // -1: none
	gen     uint32 // generation of the hit process
	lead    int    // index of the fault whose node it hits (fault.Same)
	on      bool   // flapping: the link is cut now
	narrow  narrow // bandwidth
	was     int64  // clock drift before the fault
	copy    *redis.Data
	dump    *dump
	server  *server // hit server, of faults of Redis
	shard   *shard  // hit shard, of faults of a cluster
	moved   [2]bool // whether its beginning and its end were moved to an edge
}

// schedule plans the faults and the phases. It calls enter at the beginning of each phase.
func (st *storm) schedule(p fault.Plan, enter func(phase int)) {
	start, calm := int64(st.cfg.Start), st.calm()
	st.after(0, func() { enter(phaseStart) })
	st.after(st.bucket(), st.net.countAll)
	st.after(start, func() { enter(phaseStorm) })
	for i, f := range p.Faults {
		st.plan = append(st.plan, injection{Interval: p.Interval(i), number: int32(i), node: -1, session: -1})
		if f.Target == fault.Same {
			st.plan[i].lead = fault.Lead(p.Faults, i)
		}
		at := start + int64(f.At)
		if at >= calm {
			st.out.Skipped = append(st.out.Skipped, fmt.Sprintf("%s at %v: after the storm", f.Kind, f.At))
			continue
		}
		if f.Kind == fault.RedisFailover { // before evFaultStart, in case the lag is 0
			st.after(at-f.Ms*int64(time.Millisecond), func() { st.plan[i].copy = st.servers.master.Copy() })
		}
		st.q.Push(loop.Event{At: at, Kind: evFaultStart, Arg: int32(i)})
	}
	st.after(calm, func() { enter(phaseCalm) })
	st.after(calm+int64(st.cfg.Calm), func() { enter(phaseEnd) })
}

func (st *storm) event(e *loop.Event) {
	s := &st.plan[e.Arg]
	switch {
	case st.edges != nil && st.edges.postponed(e.Kind, s):
	case e.Kind == evFaultStart:
		st.start(s)
	default:
		st.end(s)
	}
}

func (st *storm) start(s *injection) {
	s.server = st.servers.master
	if !st.aim(s) {
		if st.tryAgain(s) {
			return
		}
		text := fmt.Sprintf("%s at %v found no target", s.Kind, s.At)
		st.out.Skipped = append(st.out.Skipped, text)
		st.note("%s", text)
		return
	}
	lasts := st.lasts(s.Fault)
	if lasts > 0 && st.t+lasts < st.calm() {
		st.q.Push(loop.Event{At: st.t + lasts, Kind: evFaultEnd, Arg: s.number})
	}
	s.active = true
	st.tell(history.FaultStart, s)
	injectors[s.Kind].start(st, s)
	if lasts == 0 && !s.Has(fault.Instant) { // it is over as it hits
		st.end(s)
	}
}

// tryAgain postpones a fault of an owner while no instance owns the lease, for at most a renewal interval.
func (st *storm) tryAgain(s *injection) bool {
	next := st.t + int64(fault.Retry(st.cfg.Renew))
	if !s.Aims() || next > int64(st.cfg.Start+s.At+st.cfg.Renew) || next >= st.calm() {
		return false
	}
	st.q.Push(loop.Event{At: next, Kind: evFaultStart, Arg: s.number})
	return true
}

func (st *storm) end(s *injection) {
	if !s.active {
		return
	}
	s.active = false
	if heal := injectors[s.Kind].end; heal != nil {
		heal(st, s)
	}
	st.tell(history.FaultEnd, s)
}

func (st *storm) tell(k history.Kind, s *injection) {
	e := history.Event{Kind: k, N: int64(s.number), Reason: string(s.Kind)}
	if s.node >= 0 {
		e.Node, e.Instance = st.fleet.nodes[s.node].name, st.fleet.nodes[s.node].instance
	}
	if s.session >= 0 {
		e.Session = st.app.sessions[s.session].id
	}
	st.emit(e)
}

func (st *storm) healAll() {
	for i := range st.plan {
		if s := &st.plan[i]; s.active && st.lasts(s.Fault) > 0 {
			st.end(s)
		}
	}
}

func (st *storm) aim(s *injection) bool {
	switch s.Kind.Scope() {
	case fault.ScopeNode:
		return st.aimNode(s)
	case fault.ScopeSession:
		return st.aimSession(s)
	case fault.ScopeRedis:
		return !st.servers.master.down
	case fault.ScopeServers:
		return st.aimServer(s) && (!s.Aims() || st.aimNode(s))
	}
	return true
}

func (st *storm) aimNode(s *injection) bool {
	i, named := fault.NodeIndex(s.Target)
	switch {
	case s.Kind == fault.Join:
		return st.aimSlot(s)
	case s.Target == fault.Same:
		s.node = st.plan[s.lead].node
	case s.Aims():
		slot, ok := fault.Resolve(s.Target, st.owners(), st.atHand)
		if ok {
			s.node, s.gen = int32(slot-1), st.fleet.nodes[slot-1].gen
		}
		return ok
	case !named:
		s.node = st.anyNode()
	case i >= 1 && i <= len(st.fleet.nodes):
		s.node = int32(i - 1)
	}
	if s.node < 0 {
		return false
	}
	n := st.fleet.nodes[s.node]
	s.gen = n.gen
	return n.alive
}

// aimSlot returns the slot for a fault that starts an instance: the slot that the fault names, if it is free, otherwise
// a new slot.
func (st *storm) aimSlot(s *injection) bool {
	i, ok := fault.NodeIndex(s.Target)
	if !ok || i > len(st.fleet.nodes) {
		i = st.fleet.add(st.pick).slot
	}
	if st.fleet.nodes[i-1].alive {
		return false
	}
	s.node = int32(i - 1)
	return true
}

// anyNode draws a running instance that is not stopping, -1 if there is none.
func (st *storm) anyNode() int32 {
	var live []int32
	for i, n := range st.fleet.nodes {
		if n.alive && !n.draining {
			live = append(live, int32(i))
		}
	}
	if len(live) == 0 {
		return -1
	}
	return live[st.pick.IntN(len(live))]
}

// owners returns the slots of the owners in Redis, 0 for an owner that does not run.
func (st *storm) owners() []int {
	slots := make(map[string]int, len(st.fleet.nodes))
	for _, n := range st.fleet.nodes {
		if n.alive {
			slots[n.instance] = n.slot
		}
	}
	var owners []int
	for i, owner := range st.servers.master.Owners() {
		slot := slots[owner]
		if slot == 0 { // the key's value is no instance
			slot = st.fleet.said[st.app.sessions[i].id]
		}
		owners = append(owners, slot)
	}
	return owners
}

// atHand reports whether a fault of an owner may hit the slot: the slot's process runs, and no lasting fault affects
// it.
func (st *storm) atHand(slot int) bool {
	if slot > len(st.fleet.nodes) || !st.fleet.nodes[slot-1].alive || st.fleet.nodes[slot-1].draining {
		return false
	}
	for i := range st.plan {
		if s := &st.plan[i]; s.active && int(s.node) == slot-1 && st.lasts(s.Fault) > 0 {
			return false
		}
	}
	return true
}

func (st *storm) aimServer(s *injection) bool {
	se := st.servers.sentinels
	if se == nil {
		return false
	}
	switch s.Kind {
	case fault.ReplicaLag, fault.ReplicaCut, fault.ReplicaWipe, fault.ReplicaFlip, fault.ReplicaDump:
		s.server = se.anyReplica(s.Kind == fault.ReplicaFlip)
	}
	return s.server != nil
}

func (st *storm) aimSession(s *injection) bool {
	if s.Kind == fault.SessionAdd {
		return true
	}
	if i, ok := fault.SessionIndex(s.Target); ok {
		if i < 1 || i > len(st.app.sessions) {
			return false
		}
		s.session = int32(i - 1)
		return !st.app.sessions[s.session].gone
	}
	var there []int32
	for i := range st.app.sessions {
		if !st.app.sessions[i].gone {
			there = append(there, int32(i))
		}
	}
	if len(there) == 0 {
		return false
	}
	s.session = there[st.pick.IntN(len(there))]
	return true
}

func (s *injection) zone() int32 { return s.number + 1 }

// lasts returns the duration of a fault in ns, 0 if it is instant.
func (st *storm) lasts(f fault.Fault) int64 {
	switch {
	case f.Kind == fault.CheckSend:
		return int64(2 * st.cfg.TTL)
	case f.Kind.Has(fault.Stops): // the clean stop decides when the next process starts
		return 0
	}
	return int64(f.Lasts())
}
