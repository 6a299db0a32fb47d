package check

import (
	"cmp"
	"sort"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// servers follows the servers of a Redis with replicas. The cost of a server's fault depends on the server's role: a replica, the master,
// or one that no instance uses any more. So such faults of the plan delay nothing by themselves. Each of their effects, as the history
// shows it, is an injection of its own:
//
//   - no majority: the master does not answer, or too few replicas are attached, or none of them acknowledges in time;
//   - another life: another master, process or attachment, which begins an epoch and with it a quarantine;
//   - astray: the connections of one process do not lead to the master.
type servers struct {
	*run
	host   *host
	fleet  *fleet
	faults *faults
	begin  func(*injection) // begins the interval of an effect
	over   func(*injection) // ends it

	epoch    epoch                // of the one Redis, or of the master that the sentinels know
	cause    *injection           // the last fault of the plan that hit servers, to which effects are attributed; nil: none
	outage   *injection           // the effect "no majority"; nil: a majority is together
	late     *injection           // the effect "the last write is acknowledged late"; nil: it is not late
	pending  []int64              // times of the unacknowledged writes, in order
	switched int64                // when the master last changed
	joined   int64                // when a majority last came together again
	began    map[string]int64     // start of each epoch, by the value of its key
	strays   map[*node]*injection // the last effect "astray" of each process
	beside   map[string]*epoch    // epochs of servers other than the master that the sentinels know, by name
}

// ackAllowance is the time from which an acknowledgement is late. It is well within the 250 ms allowed for an acquisition.
const ackAllowance = int64(50 * time.Millisecond)

// hits reports whether a fault hits servers and delays nothing by itself. A flush is no such fault, because it delays.
func (x *servers) hits(inj *injection) bool {
	return x.replicated() && (inj.Kind.OfServers() ||
		inj.Kind.Scope() == fault.ScopeRedis && inj.Has(fault.Denies) && inj.Kind != fault.RedisFlush)
}

// effect begins an effect, which delays every instance, or n alone.
func (x *servers) effect(what did, does fault.Effect, n *node, at int64) *injection {
	of := fault.Interval{Fault: fault.Fault{Kind: fault.Failover}, N: -1}
	if x.cause != nil {
		of = x.cause.Interval
	}
	of.Does = does
	inj := injected(of, at)
	if inj.node, inj.did = n, what; what == didLife {
		inj.To = at
	}
	x.begin(inj)
	return inj
}

func (x *servers) event(e *history.Event) {
	switch e.Kind {
	case history.RedisMajority:
		switch {
		case e.N == 0 && x.outage == nil:
			x.outage = x.effect(didOutage, fault.Denies, nil, x.now)
		case e.N == 1 && x.outage != nil:
			x.together()
		}
	case history.RedisLife:
		does := fault.Forgets
		if x.outage == nil {
			does |= fault.Denies
		} else {
			x.outage.anew = true
		}
		if e.Reason == history.LifeSwitch {
			x.switched, does = x.now, does|fault.FailsOver
		}
		x.effect(didLife, does, nil, x.now)
	case history.RedisAcked:
		x.acked(e.Until)
	case history.Routed:
		x.routed(x.fleet.node(e.Node), e.N == 1)
	}
}

func (x *servers) together() {
	inj := x.outage
	x.outage, x.joined = nil, x.now
	if inj.anew {
		inj.Does |= fault.Forgets
		inj.detectedAt = x.faults.losses[len(x.faults.losses)-1].detectedAt // 0: no instance has seen it yet
		x.faults.losses = append(x.faults.losses, inj)
	}
	x.over(inj)
}

// writes records a write of the master, to see whether it is acknowledged in time.
func (x *servers) writes(e *history.Event) {
	if !x.replicated() || x.Replicas == 0 || e.Reason == snapshotReason {
		return
	}
	switch n := len(x.pending); {
	case e.Kind == history.TapDown:
		x.acked(x.now)
	case e.Kind != history.RedisGranted && e.Kind != history.RedisExtended || n > 0 && x.pending[n-1] == x.now:
	default:
		x.pending = append(x.pending, x.now)
		x.at(x.now+ackAllowance, x.overdue)
	}
}

func (x *servers) acked(until int64) {
	n := sort.Search(len(x.pending), func(i int) bool { return x.pending[i] > until })
	if n == 0 {
		return
	}
	x.pending = x.pending[n:]
	if inj := x.late; inj != nil {
		x.late = nil
		x.over(inj)
	}
	x.overdue()
}

func (x *servers) overdue() {
	if x.late == nil && len(x.pending) > 0 && x.now-x.pending[0] >= ackAllowance {
		x.late = x.effect(didOutage, fault.Denies, nil, x.pending[0])
	}
}

// led returns since when the connections of n have led to the master; never: they do not. n may be nil.
func (x *servers) led(n *node) int64 {
	if inj := x.strays[n]; inj != nil {
		return inj.To
	}
	return 0
}

// lost ends the epoch if Redis loses its data in the interval. Redis may grant for a while after the fault began. If the stream
// shows when the fault takes the data, the epoch ends at that time.
func (x *servers) lost(inj *injection) {
	if inj.did == didPlan && !x.shows() || inj.did != didPlan && x.switched != inj.From {
		x.epoch.lost(inj.From, inj.From)
	}
}

// servedSince returns the time since which both of these hold: the master that the sentinels know answers and has enough replicas, and
// process n reaches that master. If either does not hold now, it returns the present time. With a nil n, only the first counts.
func (x *servers) servedSince(n *node) int64 {
	if x.outage != nil {
		return x.now
	}
	return min(x.now, max(x.joined, x.led(n)))
}

func (x *servers) routed(n *node, there bool) {
	switch astray := x.led(n) == never; {
	case !there && !astray:
		x.strays[n] = x.effect(didStray, fault.Degrades, n, x.now)
	case there && astray:
		inj := x.strays[n]
		// Only now does the process learn that the master has another clock. A process that began astray has never had an answer by
		// that clock.
		began := n.current != nil && n.current.since >= inj.From
		inj.blocksAcquire = x.switched >= inj.From || began && x.switched > 0
		x.over(inj)
	}
}

func (x *servers) epochOf(name string) *epoch {
	if x.beside[name] == nil {
		x.beside[name] = &epoch{of: x}
	}
	return x.beside[name]
}

// epoch is one life of Redis' data. The first script that finds another Redis begins it. Owners assert their earlier leases anew, and
// nothing else is granted for one quarantine. Its length follows from the run's TTL, not from the key.
type epoch struct {
	of    *servers
	value string
	since int64 // earliest possible start; 0: not in this history
	until int64 // latest possible start; never: the start was not seen
	shown int64 // when its start was shown
	blind int64 // when the view of Redis' data was last lost
	down  bool  // the view is lost now
}

// quarantined is the prefix of the reason of a request that is refused during a quarantine (docs/log.md).
const quarantined = "quarantine"

func (p *epoch) follow(e *history.Event) {
	switch e.Kind {
	case history.RedisEpoch:
		switch {
		case p.of.replicated() && e.N != 0: // another server, whose epoch may have gone on
			began := p.of.began[e.Reason]
			p.since, p.until, p.shown = began, cmp.Or(began, never), began
		case e.N == 0 && len(p.of.fleet.instances) > 0:
			p.since, p.until, p.shown = max(p.since, p.of.host.earliest(p.of.now)), p.of.now, p.of.now
			p.of.began[e.Reason] = max(1, e.T)
		case e.N != 0 && e.Reason != p.value && p.blind != 0:
			p.since, p.until = max(p.since, p.blind), never
		}
		p.value = e.Reason
	case history.RedisFlushed:
		p.lost(p.of.host.earliest(e.T), e.T)
	case history.TapDown:
		p.blind, p.down = p.of.host.earliest(e.T), true
		p.stopped()
	case history.RedisUp:
		p.stopped()
	case history.TapUp:
		p.down = false
	}
}

// stopped ends the epoch if a fault of the plan takes the data, because the server has ended or is back.
func (p *epoch) stopped() {
	if !p.of.shows() {
		return
	}
	for _, inj := range p.of.faults.lasting {
		if inj.did == didPlan && inj.forgets() && p.shown < inj.From {
			p.lost(max(inj.From, p.of.host.earliest(p.of.now)), p.of.now)
		}
	}
}

// lost ends an epoch, at the earliest at the given time. The next epoch begins when an instance notices.
func (p *epoch) lost(at, shown int64) { p.since, p.until, p.shown = at, never, shown }

// quarantine returns until when nothing is granted, at least and at most. Redis' clock may run fast or slow by the margin of a window.
func (p *epoch) quarantine() (first, last int64) {
	length, off := int64(p.of.TTL), p.of.margin()+expirySlack
	switch {
	case p.since == 0 || p.of.Foreign: // another program chooses its own wait, which G1 judges
		return 0, never
	case p.until == never || p.down:
		return p.since + length - off, never
	}
	return p.since + length - off, p.until + length + off
}
