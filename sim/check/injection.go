package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// injection is a fault of the plan that was injected, or an effect of such a fault on servers.
type injection struct {
	fault.Fault
	index         int64
	node          *node
	session       string
	start         int64
	end           int64 // 0: not yet, or never
	open          bool
	detectedAt    int64        // when an instance first wrote to Redis after the healing, by which a quarantine has begun; 0: not yet
	terms         []*term      // terms that it hit, until it is healed
	endedUnclean  int64        // when the process that it stopped ended without signing off; 0: it signed off
	did           did          // effect on servers; didPlan: the fault itself
	id            int64        // key in world.open
	anew          bool         // an epoch ended while it lasted
	jumps         bool         // from its end on, Redis' clock is another server's
	known         bool         // does is valid
	does          fault.Effect // cached effects of the kind
	blocksAcquire bool         // an instance sees only at its end that Redis' clock jumped, and acquires nothing for a TTL from then on
}

func (inj *injection) String() string {
	name := string(inj.Kind)
	switch {
	case inj.node != nil:
		name += " of " + inj.node.name
	case inj.session != "":
		name += " of session " + inj.session
	}
	return fmt.Sprintf("%s at %s", name, clock(inj.start))
}

// event returns the event of the history in which the fault began.
func (inj *injection) event() history.Event {
	e := history.Event{T: inj.start, Kind: history.FaultStart, N: inj.index, Reason: string(inj.Kind)}
	if inj.node != nil {
		e.Node = inj.node.name
	}
	return e
}

func (inj *injection) has(any fault.Effect) bool {
	if !inj.known {
		inj.does, inj.known = inj.Kind.Effects(), true
	}
	return inj.does&any != 0
}

// silences reports whether the fault leaves its node alive but unheard.
func (inj *injection) silences() bool {
	if inj.did != didPlan {
		return inj.did == didStray
	}
	return inj.has(fault.Silences)
}

// lingers returns for how many ns after the fault's end delayed messages may still arrive.
func (inj *injection) lingers() int64 {
	if inj.did == didPlan && inj.has(fault.Lingers) {
		return (inj.Ms + inj.Jitter) * int64(time.Millisecond)
	}
	return 0
}

func (inj *injection) freezes() bool {
	return inj.did == didPlan && inj.has(fault.Freezes)
}

// forgets reports whether Redis returns from the fault as another one (run_id or marker). A quarantine follows.
func (inj *injection) forgets() bool {
	if inj.did != didPlan {
		return inj.did == didLife || inj.did == didWithin || inj.anew && !inj.open
	}
	return inj.has(fault.Forgets)
}

// ofRedis reports whether the fault takes Redis away from all instances for a while.
func (inj *injection) ofRedis() bool {
	if inj.did != didPlan {
		return inj.did == didOutage || inj.did == didLife
	}
	return inj.has(fault.Denies)
}

// failsOver reports whether another server, with another clock, becomes the master.
func (inj *injection) failsOver() bool {
	return inj.jumps || inj.did == didPlan && inj.has(fault.FailsOver)
}

func (w *world) nodeOf(e *history.Event) *node {
	if i := w.instances[e.Instance]; i != nil {
		return i.node
	}
	return nil
}

// observeHeartbeat notes the first heartbeat after a loss, because a frozen or cut-off process does not see the loss. In an election no
// script sets heartbeats. There the epochs show the detection, if the history has them; with replicas it always has.
func (w *world) observeHeartbeat(e *history.Event) {
	if e.Kind == history.RedisBeat && e.Reason != snapshotReason && (w.System != SystemElection || w.epoch.value == "" && !w.replicated()) {
		w.lossDetected()
	}
}

// lossDetected records that an instance sees all past losses of data now, unless one saw them earlier.
func (w *world) lossDetected() {
	var still []*injection
	for _, inj := range w.unseen {
		switch {
		case inj.detectedAt != 0:
		case inj.open:
			still = append(still, inj)
		default:
			inj.detectedAt = w.now
		}
	}
	w.unseen = still
}

func (w *world) inject(e *history.Event) {
	inj := &injection{index: e.N, session: e.Session, start: e.T}
	if e.N >= 0 && e.N < int64(len(w.Plan.Faults)) {
		inj.Fault = w.Plan.Faults[e.N]
	}
	if e.Reason != "" {
		inj.Kind = fault.Kind(e.Reason)
	}
	if e.Node != "" {
		inj.node = w.node(e.Node)
	}
	if n, ok := fault.SessionIndex(inj.session); ok && n <= len(w.created) && w.sessions.byID[inj.session] == nil {
		inj.session = w.created[n-1] // the fault has the plan's name of the session
	}
	inj.open, inj.id = !inj.has(fault.Instant), inj.index
	if w.hitsServers(inj) {
		w.challenges.injected(inj)
		w.servers.hit(inj)
		return
	}
	w.begin(inj)
}

func (w *world) loses(inj *injection) {
	w.losses, w.unseen = append(w.losses, inj), append(w.unseen, inj)
}

func (w *world) begin(inj *injection) {
	at := len(w.injections)
	for at > 0 && w.injections[at-1].start > inj.start { // some are noticed late
		at--
	}
	w.injections = slices.Insert(slices.Clone(w.injections), at, inj) // callers may still iterate over the old list
	w.passed = min(w.passed, at)
	if inj.forgets() {
		w.loses(inj)
		if !w.epoch.shows(w, inj) && (inj.did == didPlan || w.servers.switched != inj.start) {
			w.epoch.lost(inj.start, inj.start)
		}
	}
	w.goesOn(w.open[inj.id], -1) // the injection that this one replaces will not be healed
	w.open[inj.id] = inj
	w.goesOn(inj, 1)
	if inj.did == didPlan {
		w.challenges.injected(inj)
		w.process(inj)
	}
	w.rest.injected(inj)
	for _, c := range w.checkers {
		c.injected(inj)
	}
}

// goesOn adds n, 1 or -1, to the counts of lasting injections.
func (w *world) goesOn(inj *injection, n int) {
	if inj == nil || !inj.open {
		return
	}
	if inj.silences() || inj.ofRedis() {
		w.hinders += n
	}
	if inj.node == nil {
		return
	}
	if inj.silences() {
		inj.node.silenced += n
	}
	if inj.freezes() {
		inj.node.freezing += n
	}
}

// process records the injection's effects on processes.
func (w *world) process(inj *injection) {
	switch {
	case inj.has(fault.Deletes):
		if inj.session != "" {
			t := w.session(inj.session)
			t.deletes = append(t.deletes, inj)
		}
	case inj.node == nil && inj.has(fault.Kills):
		for _, n := range w.nodes {
			if n.current != nil {
				n.killer = inj
			}
		}
	case inj.node == nil:
	case inj.has(fault.Kills):
		inj.node.killer = inj
	case inj.has(fault.Stops):
		inj.node.asked = inj
		if i := inj.node.current; i != nil {
			i.leave = inj
		}
	case inj.has(fault.Freezes):
		inj.node.freeze(w.now)
	}
}

func (n *node) freeze(now int64) {
	if !n.frozen() {
		n.freezes = append(n.freezes, span{now, never})
	}
}

// thawed ends a freeze. The end of a frozen process ends it too, so that rules see the process as frozen until its last moment.
func (n *node) thawed(now int64) {
	if n.frozen() {
		n.freezes[len(n.freezes)-1].to = now
	}
}

func (w *world) heal(e *history.Event) {
	if inj := w.servers.open[e.N]; inj != nil {
		delete(w.servers.open, e.N)
		inj.end, inj.open = e.T, false
		w.challenges.healed(inj)
		return
	}
	inj := w.open[e.N]
	if inj == nil {
		return
	}
	w.over(inj)
}

func (w *world) over(inj *injection) {
	w.goesOn(w.open[inj.id], -1)
	delete(w.open, inj.id)
	inj.end, inj.open = w.now, false
	if inj.did == didPlan {
		w.challenges.healed(inj)
	}
	inj.blocksAcquire = inj.blocksAcquire || (inj.silences() || inj.ofRedis()) && !w.forgets(inj) && w.missedFailover(inj)
	if inj.freezes() && inj.node != nil && inj.node.freezing == 0 { // otherwise another fault still freezes it
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

// frozenSince reports whether the instance's process was frozen at any moment between since and now.
func (w *world) frozenSince(inst string, since int64) bool {
	return w.frozenBetween(inst, since, never)
}

func (w *world) frozenBetween(inst string, from, to int64) bool {
	return w.lastFreeze(inst, to).to >= from
}

func (w *world) lastFreeze(inst string, at int64) span {
	if i := w.instances[inst]; i != nil {
		return i.node.lastFreeze(at)
	}
	return span{to: -never}
}
