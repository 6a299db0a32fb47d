package check

import (
	"slices"
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
	plan     []*injection         // faults of the plan that hit servers
	open     map[int64]*injection // those of plan that are not healed, by index in the plan
	ids      int64                // id of the last effect, counted down
	outage   *injection           // the effect "no majority"; nil: a majority is together
	late     *injection           // the effect "the last write is acknowledged late"; nil: it is not late
	pending  []int64              // times of the unacknowledged writes, in order
	switched int64                // when the master last changed
	joined   int64                // when a majority last came together again
	astray   map[*node]*injection
	led      map[*node]int64   // when the connections of a process that was astray last led to the master again
	began    map[string]int64  // start of each epoch, by the value of its key
	beside   map[string]*epoch // epochs of servers other than the master that the sentinels know, by name
}

type did uint8

const (
	didPlan   did = iota // the fault of the plan itself
	didOutage            // no majority is together
	didLife              // an epoch ended
	didWithin            // an epoch ended while no majority was together
	didStray             // a process was led elsewhere
)

// ackAllowance is the time from which an acknowledgement is late. It is well within the 250 ms allowed for an acquisition.
const ackAllowance = int64(50 * time.Millisecond)

// hitsServers reports whether a fault hits servers and delays nothing by itself. A flush does not count, because it delays.
func (w *world) hitsServers(inj *injection) bool {
	if !w.replicated() {
		return false
	}
	return inj.Kind.OfServers() || inj.Kind.Scope() == fault.ScopeRedis && inj.has(fault.Denies) && inj.Kind != fault.RedisFlush
}

func (x *servers) hit(inj *injection) {
	if x.open == nil {
		x.open = map[int64]*injection{}
	}
	x.plan, x.open[inj.index] = append(x.plan, inj), inj
}

// cause returns the fault of the plan to which an effect is attributed: the last that hit servers.
func (x *servers) cause() fault.Fault {
	if n := len(x.plan); n > 0 {
		return x.plan[n-1].Fault
	}
	return fault.Fault{Kind: fault.Failover}
}

func (x *servers) causeIndex() int64 {
	if n := len(x.plan); n > 0 {
		return x.plan[n-1].index
	}
	return -1
}

// begin begins an effect, which delays every instance, or n alone.
func (x *servers) begin(w *world, what did, n *node, at int64) *injection {
	inj := &injection{Fault: x.cause(), index: x.causeIndex(), node: n, start: at, did: what, open: what != didLife && what != didWithin}
	if !inj.open {
		inj.end = at
	}
	x.ids--
	inj.id = x.ids
	w.begin(inj)
	return inj
}

func (x *servers) event(w *world, e *history.Event) {
	switch e.Kind {
	case history.RedisMajority:
		switch {
		case e.N == 0 && x.outage == nil:
			x.outage = x.begin(w, didOutage, nil, w.now)
		case e.N == 1 && x.outage != nil:
			x.together(w)
		}
	case history.RedisLife:
		if e.Reason == history.LifeSwitch {
			x.switched = w.now
		}
		what := didLife
		if x.outage != nil {
			what, x.outage.anew = didWithin, true
		}
		x.begin(w, what, nil, w.now).jumps = e.Reason == history.LifeSwitch
	case history.RedisAcked:
		x.acked(w, e)
	case history.Routed:
		x.routed(w, w.node(e.Node), e.N == 1)
	}
}

func (x *servers) together(w *world) {
	inj := x.outage
	x.outage, x.joined = nil, w.now
	if inj.anew {
		for _, loss := range slices.Backward(w.losses) {
			if loss.start >= inj.start {
				inj.detectedAt = loss.detectedAt // 0: no instance has seen it yet
				break
			}
		}
		w.loses(inj)
	}
	w.over(inj)
}

// writes records a write of the master, to see whether it is acknowledged in time.
func (x *servers) writes(w *world, e *history.Event) {
	if !w.replicated() || w.Replicas == 0 || e.Reason == snapshotReason {
		return
	}
	switch n := len(x.pending); {
	case e.Kind == history.TapDown:
		x.pending = nil
		x.caughtUp(w)
	case e.Kind != history.RedisGranted && e.Kind != history.RedisExtended || n > 0 && x.pending[n-1] == w.now:
	default:
		x.pending = append(x.pending, w.now)
		x.watch(w, w.now)
	}
}

func (x *servers) watch(w *world, at int64) {
	w.at(at+ackAllowance, func() {
		if len(x.pending) > 0 && x.pending[0] == at && x.late == nil {
			x.late = x.begin(w, didOutage, nil, at)
		}
	})
}

func (x *servers) acked(w *world, e *history.Event) {
	n := 0
	for n < len(x.pending) && x.pending[n] <= e.Until {
		n++
	}
	if n == 0 {
		return
	}
	x.pending = x.pending[n:]
	x.caughtUp(w)
	if len(x.pending) > 0 && w.now-x.pending[0] >= ackAllowance {
		x.late = x.begin(w, didOutage, nil, x.pending[0])
	}
}

func (x *servers) caughtUp(w *world) {
	if x.late != nil {
		inj := x.late
		x.late = nil
		w.over(inj)
	}
}

// servedSince returns since when a majority has been together at the known master, and the connections of n have led there. n may be nil.
func (x *servers) servedSince(w *world, n *node) int64 {
	if x.outage != nil || x.astray[n] != nil {
		return w.now
	}
	return max(x.joined, x.led[n])
}

func (x *servers) routed(w *world, n *node, there bool) {
	inj := x.astray[n]
	switch {
	case !there && inj == nil:
		if x.astray == nil {
			x.astray, x.led = map[*node]*injection{}, map[*node]int64{}
		}
		x.astray[n] = x.begin(w, didStray, n, w.now)
	case there && inj != nil:
		delete(x.astray, n)
		x.led[n] = w.now
		// The process hears only now that the master's clock is another. One that began astray has never heard that clock.
		began := n.current != nil && n.current.since >= inj.start
		inj.blocksAcquire = x.switched >= inj.start || began && x.switched > 0
		w.over(inj)
	}
}

// reachOfServers returns how long a fault of the servers can have an effect. An instance retries a refused or unanswered request within a
// quarter of a renewal interval. The first script that finds a new epoch begins a quarantine; this is a renewal at the latest. An instance
// that notices another server, whose clock may differ, acquires nothing for a TTL.
func (w *world) reachOfServers(inj *injection, end int64) span {
	seen := inj.start + int64(w.Renew)
	switch {
	case inj.did != didLife && inj.did != didWithin:
		return span{inj.start, end + int64(w.Renew)/4}
	case inj.jumps:
		seen = max(inj.start+w.clockWithin(), inj.detectedAt)
	case inj.detectedAt != 0:
		seen = inj.detectedAt
	}
	return span{inj.start, seen + int64(w.TTL)}
}

func (x *servers) begins(e *history.Event) {
	if x.began == nil {
		x.began = map[string]int64{}
	}
	x.began[e.Reason] = max(1, e.T)
}

func (x *servers) epochOf(name string) *epoch {
	if x.beside == nil {
		x.beside = map[string]*epoch{}
	}
	if x.beside[name] == nil {
		x.beside[name] = &epoch{}
	}
	return x.beside[name]
}

// aside handles an event of a server other than the master that the sentinels know.
func (w *world) aside(e *history.Event) {
	w.servers.epochOf(e.Node).follow(w, e)
	for _, c := range w.checkers {
		c.aside(e)
	}
}
