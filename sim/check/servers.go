package check

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// servers follows what befell a Redis with replicas. What a fault of a server costs depends on the server: a replica, the master, or one
// that nobody asks any more. So such faults of the plan delay nothing by themselves. What they did does, as the history shows it, and is an
// injection of its own:
//
//   - no majority: the master does not answer, or too few replicas are attached, or none of them acknowledges in time;
//   - another life: another master, process or attachment, which begins an epoch and with it a quarantine;
//   - astray: the connections of one process do not lead to the master.
type servers struct {
	plan     []*injection         // of the plan, that hit servers
	open     map[int64]*injection // of those, by index in the plan
	ids      int64                // of what they did, so far, counted down
	outage   *injection           // no majority is together; nil: one is
	late     *injection           // what was written last is acknowledged late; nil: it is not
	pending  []int64              // when what is not acknowledged was written, in order
	switched int64                // when the last other master was heard of
	joined   int64                // when a majority was last together anew
	astray   map[*node]*injection
	led      map[*node]int64   // when the connections of each that was astray last led to the master again
	began    map[string]int64  // when each epoch did, by what its key holds
	beside   map[string]*epoch // of servers that are not the master that the sentinels know
}

type did uint8

const (
	didPlan   did = iota // it is one of the plan
	didOutage            // no majority is together
	didLife              // an epoch ended
	didWithin            // an epoch ended while no majority was together
	didStray             // a process was led elsewhere
)

// ackAllowance is how long an acknowledgement may take before it is late, which is well within what acquiring is given (250 ms).
const ackAllowance = int64(50 * time.Millisecond)

// hitsServers reports whether a fault of the plan is one of servers, which delays nothing by itself. What empties the data does.
func (w *world) hitsServers(inj *injection) bool {
	if !w.replicated() {
		return false
	}
	return inj.Kind.OfServers() || inj.Kind.Scope() == fault.ScopeRedis && inj.has(fault.Denies) && inj.Kind != fault.RedisFlush
}

// hit records such a fault.
func (x *servers) hit(inj *injection) {
	if x.open == nil {
		x.open = map[int64]*injection{}
	}
	x.plan, x.open[inj.index] = append(x.plan, inj), inj
}

// cause is the fault of the plan to which what happens now is put down: the last that hit one.
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

// begin begins what delays those who need Redis.
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
				inj.detectedAt = loss.detectedAt // 0: nobody has seen it yet
				break
			}
		}
		w.loses(inj)
	}
	w.over(inj)
}

// writes records that the master wrote something, which is late if it is not acknowledged soon.
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

// servedSince is since when a majority has been together at the known master, and the connections of n have led there; n may be nil.
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
		// It hears now that Redis' clock is another; one that began so has never heard this master's.
		began := n.current != nil && n.current.since >= inj.start
		inj.blocksAcquire = x.switched >= inj.start || began && x.switched > 0
		w.over(inj)
	}
}

// reachOfServers: what is refused, or not answered, is tried again after a quarter of a renewal interval at most. The first script that
// sees another life begins a quarantine: a renewal at the latest. An instance that hears another server's clock acquires nothing for a TTL.
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

// begins records that a script began an epoch.
func (x *servers) begins(e *history.Event) {
	if x.began == nil {
		x.began = map[string]int64{}
	}
	x.began[e.Reason] = max(1, e.T)
}

// epochOf is the epoch of a server that is not the master that the sentinels know.
func (x *servers) epochOf(name string) *epoch {
	if x.beside == nil {
		x.beside = map[string]*epoch{}
	}
	if x.beside[name] == nil {
		x.beside[name] = &epoch{}
	}
	return x.beside[name]
}

// aside has those who want to know hear of a server that is not the master which the sentinels know.
func (w *world) aside(e *history.Event) {
	w.servers.epochOf(e.Node).follow(w, e)
	for _, c := range w.checkers {
		c.aside(e)
	}
}
