package check

import (
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

type did uint8

const (
	didPlan    did = iota // the fault of the plan itself
	didServers            // nothing: the fault of the plan hit servers, and its effects are injections of their own
	didOutage             // no majority is together
	didLife               // an epoch ended
	didStray              // a process was led elsewhere
)

// ackAllowance is the time from which an acknowledgement is late. It is well within the 250 ms allowed for an acquisition.
const ackAllowance = int64(50 * time.Millisecond)

// hitsServers reports whether a fault hits servers and delays nothing by itself. A flush does not count, because it delays.
func (w *world) hitsServers(inj *injection) bool {
	return w.replicated() && (inj.Kind.OfServers() ||
		inj.Kind.Scope() == fault.ScopeRedis && inj.Has(fault.Denies) && inj.Kind != fault.RedisFlush)
}

// begin begins an effect, which delays every instance, or n alone.
func (x *servers) begin(w *world, what did, does fault.Effect, n *node, at int64) *injection {
	of := fault.Interval{Fault: fault.Fault{Kind: fault.Failover}, N: -1}
	if x.cause != nil {
		of = x.cause.Interval
	}
	of.Does = does
	inj := injected(of, at)
	if inj.node, inj.did = n, what; what == didLife {
		inj.To = at
	}
	w.begin(inj)
	return inj
}

func (x *servers) event(w *world, e *history.Event) {
	switch e.Kind {
	case history.RedisMajority:
		switch {
		case e.N == 0 && x.outage == nil:
			x.outage = x.begin(w, didOutage, fault.Denies, nil, w.now)
		case e.N == 1 && x.outage != nil:
			x.together(w)
		}
	case history.RedisLife:
		does := fault.Forgets
		if x.outage == nil {
			does |= fault.Denies
		} else {
			x.outage.anew = true
		}
		if e.Reason == history.LifeSwitch {
			x.switched, does = w.now, does|fault.FailsOver
		}
		x.begin(w, didLife, does, nil, w.now)
	case history.RedisAcked:
		x.acked(w, e.Until)
	case history.Routed:
		x.routed(w, w.node(e.Node), e.N == 1)
	}
}

func (x *servers) together(w *world) {
	inj := x.outage
	x.outage, x.joined = nil, w.now
	if inj.anew {
		inj.Does |= fault.Forgets
		inj.detectedAt = w.losses[len(w.losses)-1].detectedAt // 0: no instance has seen it yet
		w.losses = append(w.losses, inj)
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
		x.acked(w, w.now)
	case e.Kind != history.RedisGranted && e.Kind != history.RedisExtended || n > 0 && x.pending[n-1] == w.now:
	default:
		x.pending = append(x.pending, w.now)
		w.at(w.now+ackAllowance, func() { x.overdue(w) })
	}
}

func (x *servers) acked(w *world, until int64) {
	n := sort.Search(len(x.pending), func(i int) bool { return x.pending[i] > until })
	if n == 0 {
		return
	}
	x.pending = x.pending[n:]
	if inj := x.late; inj != nil {
		x.late = nil
		w.over(inj)
	}
	x.overdue(w)
}

func (x *servers) overdue(w *world) {
	if x.late == nil && len(x.pending) > 0 && w.now-x.pending[0] >= ackAllowance {
		x.late = x.begin(w, didOutage, fault.Denies, nil, x.pending[0])
	}
}

// led returns since when the connections of n have led to the master; never: they do not. n may be nil.
func (x *servers) led(n *node) int64 {
	if inj := x.strays[n]; inj != nil {
		return inj.To
	}
	return 0
}

// servedSince returns since when a majority has been together at the known master, and the connections of n have led there.
func (x *servers) servedSince(w *world, n *node) int64 {
	if x.outage != nil {
		return w.now
	}
	return min(w.now, max(x.joined, x.led(n)))
}

func (x *servers) routed(w *world, n *node, there bool) {
	switch astray := x.led(n) == never; {
	case !there && !astray:
		x.strays[n] = x.begin(w, didStray, fault.Degrades, n, w.now)
	case there && astray:
		inj := x.strays[n]
		// The process hears only now that the master's clock is another. One that began astray has never heard that clock.
		began := n.current != nil && n.current.since >= inj.From
		inj.blocksAcquire = x.switched >= inj.From || began && x.switched > 0
		w.over(inj)
	}
}

// reachOfServers returns how long a fault of the servers can have an effect. An instance retries a refused or unanswered request within a
// quarter of a renewal interval. The first script that finds a new epoch begins a quarantine; this is a renewal at the latest. An instance
// that notices another server, whose clock may differ, acquires nothing for a TTL.
func (w *world) reachOfServers(inj *injection, end int64) span {
	seen := inj.From + int64(w.Renew)
	switch {
	case inj.did != didLife:
		return span{inj.From, end + int64(w.Renew)/4}
	case inj.failsOver():
		seen = max(inj.From+w.clockWithin(), inj.detectedAt)
	case inj.detectedAt != 0:
		seen = inj.detectedAt
	}
	return span{inj.From, seen + int64(w.TTL)}
}

func (x *servers) epochOf(name string) *epoch {
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
