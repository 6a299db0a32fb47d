package check

import (
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// injection is the interval of a fault of the plan that was injected, or of an effect of such a fault on servers, as the history shows it.
type injection struct {
	fault.Interval // To is never while it lasts
	node           *node
	session        string
	detectedAt     int64   // when an instance first wrote to Redis after the healing, by which a quarantine has begun; 0: not yet
	did            did     // effect on servers; didPlan: the fault itself
	struck         []*term // terms whose owners trusted them when it began
	anew           bool    // an epoch ended while it lasted
	blocksAcquire  bool    // an instance sees only at its end that Redis' clock jumped, and acquires nothing for a TTL from then on
}

// injected returns an interval that begins at the given time.
func injected(x fault.Interval, at int64) *injection {
	x.From, x.To = at, never
	if x.Has(fault.Instant) {
		x.To = at
	}
	return &injection{Interval: x}
}

// lasts reports whether the end of the interval is not known yet.
func (inj *injection) lasts() bool { return inj.To == never }

func (inj *injection) String() string {
	name := string(inj.Kind)
	switch {
	case inj.node != nil:
		name += " of " + inj.node.name
	case inj.session != "":
		name += " of session " + inj.session
	}
	return fmt.Sprintf("%s at %s", name, clock(inj.From))
}

// event returns the event of the history in which the fault began.
func (inj *injection) event() history.Event {
	e := history.Event{T: inj.From, Kind: history.FaultStart, N: inj.N, Reason: string(inj.Kind)}
	if inj.node != nil {
		e.Node = inj.node.name
	}
	return e
}

// ofRedis reports whether the fault takes Redis away from all instances for a while.
func (inj *injection) ofRedis() bool { return inj.Has(fault.Denies) }

// forgets reports whether Redis returns from the fault with another identity (run_id or marker), so that a quarantine follows.
func (inj *injection) forgets() bool { return inj.Has(fault.Forgets) }

// failsOver reports whether another server, with another clock, becomes the master.
func (inj *injection) failsOver() bool { return inj.Has(fault.FailsOver) }

func (w *world) nodeOf(e *history.Event) *node {
	if i := w.instances[e.Instance]; i != nil {
		return i.node
	}
	return nil
}

// observeHeartbeat notes the first heartbeat after a loss, because a frozen or cut-off process does not see the loss. If the history has
// epochs, these show the detection; with replicas it always has them.
func (w *world) observeHeartbeat(e *history.Event) {
	if e.Kind == history.RedisBeat && e.Reason != snapshotReason && w.epoch.value == "" && !w.replicated() {
		w.lossDetected()
	}
}

// lossDetected records that an instance sees all past losses of data now, unless one saw them earlier.
func (w *world) lossDetected() {
	for _, inj := range w.losses {
		if !inj.lasts() && inj.detectedAt == 0 {
			inj.detectedAt = w.now
		}
	}
}

func (w *world) inject(e *history.Event) {
	inj := injected(w.Plan.As(e.N, fault.Kind(e.Reason)), e.T)
	inj.session = e.Session
	if e.Node != "" {
		inj.node = w.node(e.Node)
	}
	if n, ok := fault.SessionIndex(inj.session); ok && n <= len(w.created) && w.sessions.byID[inj.session] == nil {
		inj.session = w.created[n-1] // the fault has the plan's name of the session
	}
	w.challenges.injected(inj)
	if w.hitsServers(inj) {
		inj.did, inj.Does = didServers, 0
		w.servers.cause = inj
	}
	w.begin(inj)
}

func (w *world) begin(inj *injection) {
	if inj.lasts() {
		w.open = append(w.open, inj)
	}
	if inj.did == didServers {
		return
	}
	at := len(w.injections)
	for at > 0 && w.injections[at-1].From > inj.From { // some are noticed late
		at--
	}
	w.injections = slices.Insert(slices.Clone(w.injections), at, inj) // callers may still iterate over the old list
	w.passed = min(w.passed, at)
	if inj.forgets() {
		w.losses = append(w.losses, inj)
		// Redis may grant for a while after the fault began. If its stream shows when the fault takes the data, the epoch ends then.
		if inj.did == didPlan && !w.shows() || inj.did != didPlan && w.servers.switched != inj.From {
			w.epoch.lost(inj.From, inj.From)
		}
	}
	w.process(inj)
	w.rest.injected(inj)
	for _, c := range w.checkers {
		c.injected(inj)
	}
}

// under reports whether an open fault has one of the effects, on the node or, if that is nil, on anything.
func (w *world) under(n *node, any fault.Effect) bool {
	for _, inj := range w.open {
		if inj.Has(any) && (n == nil || inj.node == n) {
			return true
		}
	}
	return false
}

// process records the injection's effects on processes.
func (w *world) process(inj *injection) {
	if inj.Has(fault.Deletes) && inj.session != "" {
		s := w.session(inj.session)
		s.deletes = append(s.deletes, inj)
	}
	for _, n := range w.nodes {
		switch all := inj.node == nil && n.current != nil; {
		case inj.Has(fault.Kills) && (all || n == inj.node):
			n.killer = inj
		case n != inj.node:
		case inj.Has(fault.Stops):
			n.asked = inj
			if n.current != nil {
				n.current.leave = inj
			}
		case inj.Has(fault.Freezes):
			if !n.frozen() {
				n.freezes = append(n.freezes, span{w.now, never})
			}
		}
	}
}

// thawed ends a freeze. The end of a frozen process ends it too, so that rules see the process as frozen until its last moment.
func (n *node) thawed(now int64) {
	if n.frozen() {
		n.freezes[len(n.freezes)-1].to = now
	}
}

func (w *world) heal(e *history.Event) {
	for _, inj := range slices.Clone(w.open) {
		if inj.N == e.N && (inj.did == didPlan || inj.did == didServers) {
			w.over(inj)
		}
	}
}

func (w *world) over(inj *injection) {
	w.open = slices.DeleteFunc(w.open, func(o *injection) bool { return o == inj })
	inj.To = w.now
	w.challenges.healed(inj)
	if inj.did == didServers {
		return
	}
	if inj.Has(fault.Silences|fault.Denies) && !w.forgets(inj) && w.allows(missedFailovers) && w.missedFailover(inj) {
		inj.blocksAcquire = true
	}
	if inj.Has(fault.Freezes) && inj.node != nil && !w.under(inj.node, fault.Freezes) {
		inj.node.thawed(w.now)
	}
	w.rest.healed(inj)
	for _, c := range w.checkers {
		c.healed(inj)
	}
}

// lastFreeze returns the last freeze of the node's process that began by at; an empty span if there was none.
func (n *node) lastFreeze(at int64) span {
	if n != nil {
		for _, f := range slices.Backward(n.freezes) {
			if f.from <= at {
				return f
			}
		}
	}
	return span{to: -never}
}

func (n *node) frozen() bool { return n.lastFreeze(never).to == never }

// frozenWithin reports whether the node's process was frozen at any moment between from and now.
func (n *node) frozenWithin(from int64) bool { return n.lastFreeze(never).to >= from }

// frozenBetween reports whether the instance's process was frozen at any moment between from and to.
func (w *world) frozenBetween(inst string, from, to int64) bool {
	return w.lastFreeze(inst, to).to >= from
}

func (w *world) lastFreeze(inst string, at int64) span {
	if i := w.instances[inst]; i != nil {
		return i.node.lastFreeze(at)
	}
	return span{to: -never}
}
