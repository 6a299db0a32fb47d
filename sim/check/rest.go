package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// rest tracks whether the fleet should be at rest: balanced, with no lease moving. G6 judges that state, G7 changes that begin from it.
//
// Every heartbeat or session that comes or goes, and the end of every fault, sets a deadline. While a fault lasts, or a dead process'
// heartbeat lives, there is no deadline.
type rest struct {
	w           *world
	beats       map[string]int64 // end of each instance's heartbeat, as Redis shows it (0: as long as the process lives)
	dead        map[string]bool  // dead instances whose heartbeat lives
	returns     map[string]bool  // instances that a fault silenced until now: their next heartbeat is a change
	tap         bool             // heartbeats come from Redis' stream
	forgot      bool             // Redis lost data, and its quarantine has not begun: no heartbeat has come since
	due         int64            // deadline of the rest
	since       int64
	stalled     int64 // stall of the host between since and due
	pending     bool
	atRest      bool       // the deadline passed, and nothing has changed since
	wasAtRest   bool       // atRest, when the last fault hit
	by          *injection // last fault that hit, or was healed, since the last rest; nil: none
	left        string     // instance whose heartbeat went last during rest
	leftAt      int64
	movedAtRest bool // a lease moved at rest (G6 reports it once)
	observers   []restObserver
}

// beatSlack is how late Redis may notice, and the tap show, the end of a heartbeat.
const beatSlack = int64(100 * time.Millisecond)

// restObserver is notified when the fleet must be at rest, when a lease then moves, and when a fault hits before a deadline.
type restObserver interface {
	rested()
	movedAtRest()
	disturbed(by *injection)
}

func (r *rest) init(w *world) {
	*r = rest{w: w, beats: map[string]int64{}, dead: map[string]bool{}, returns: map[string]bool{}, tap: w.Tap}
}

// change sets a deadline: the fleet must settle within settle from now.
func (r *rest) change(settle int64) { r.changeAt(r.w.now, settle) }

func (r *rest) changeAt(at, settle int64) {
	r.atRest, r.movedAtRest = false, false
	r.since = r.w.now
	due := at + settle
	if r.pending && due <= r.due {
		return // the later deadline counts
	}
	r.due, r.pending = due, true
	r.w.at(due, r.reached)
}

func (r *rest) reached() {
	if !r.pending || r.w.now < r.due || r.w.phase == "end" {
		return
	}
	r.stalled = r.w.stall(r.since, r.w.now)
	if due := r.due + r.stalled + r.held(); due > r.w.now {
		r.w.at(due, r.reached) // the host stalled meanwhile, or a poll was not answered
		return
	}
	for _, id := range sortedKeys(r.beats) {
		if until := r.beats[id]; until != 0 && until+beatSlack < r.w.now {
			r.forget(id) // the heartbeat ended unseen, which is a change
			r.changeAt(max(until, r.since), r.w.settle())
			if r.due > r.w.now {
				return
			}
		}
	}
	if until, settle := r.leftBehind(), r.w.settle(); until+settle > r.w.now {
		r.changeAt(until, settle) // the end of that lease is a change too, perhaps of this moment
		return
	}
	if r.busy() {
		return // the end of the busy state is a change of its own
	}
	r.pending, r.atRest, r.due = false, true, r.w.now
	for _, l := range r.observers {
		l.rested()
	}
	r.by = nil
}

// leftBehind returns the end of the last lease of a gone instance that could not release it, because Redis did not answer.
func (r *rest) leftBehind() (until int64) {
	for _, s := range r.w.sessions.all {
		if k := s.granted; k != nil && k.until > until {
			if i := r.w.instances[k.holder]; i != nil && i.gone {
				until = k.until
			}
		}
	}
	return until
}

// freed is called when a lease ends. The leases of a gone instance go to the first instance that acquires them, which may hand them over.
func (r *rest) freed(k *grant) {
	if k == nil {
		return
	}
	if i := r.w.instances[k.holder]; i != nil && i.gone {
		r.change(r.w.settle())
	}
}

// busy reports whether a fault lasts, or the heartbeat of a dead process lives.
func (r *rest) busy() bool {
	for id := range r.dead {
		if _, beats := r.beats[id]; beats {
			return true
		}
	}
	if len(r.returns) > 0 {
		return true
	}
	return r.w.under(nil, fault.Silences|fault.Denies)
}

func (r *rest) redis(e *history.Event) {
	switch e.Kind {
	case history.RedisBeat:
		if r.forgot && e.Reason != snapshotReason {
			r.forgot = false
			r.change(int64(r.w.TTL) + r.w.settleSessions())
		}
		_, known := r.beats[e.Instance]
		r.beats[e.Instance] = e.Until
		if !known || r.returns[e.Instance] {
			delete(r.returns, e.Instance)
			r.change(r.w.settle())
		}
	case history.RedisBeatGone:
		if _, known := r.beats[e.Instance]; known {
			settle := r.w.settle()
			if r.withdrew(e.Instance) {
				settle += int64(r.w.TTL)
			}
			if r.atRest {
				r.left, r.leftAt = e.Instance, r.w.now
			}
			r.forget(e.Instance)
			r.change(settle)
		}
	case history.RedisFlushed:
		clear(r.beats)
		clear(r.dead)
		clear(r.returns)
		r.change(r.w.settleSessions())
	}
}

// withdrew reports whether a living instance removed its heartbeat, because it could not acquire the leases meant for it. It keeps its
// leases, which the others do not get, and returns after a TTL.
func (r *rest) withdrew(id string) bool {
	i := r.w.instances[id]
	return i != nil && i.node != nil && !i.gone && i.node.asked == nil && r.beats[id] > r.w.now
}

func (r *rest) ready(i *instance) {
	if !r.tap {
		r.beats[i.id] = 0
	}
	r.change(r.w.settle())
}

func (r *rest) exited(i *instance) {
	if _, beats := r.beats[i.id]; beats && (i.killed || r.tap) {
		r.dead[i.id] = true
		delete(r.returns, i.id)
		r.atRest = false
		r.expireBeat(i.id)
		return
	}
	delete(r.returns, i.id)
	if !r.tap {
		delete(r.beats, i.id)
	}
	r.change(r.w.settle())
}

// expireBeat ends a dead instance's heartbeat if nothing shows its end: at the end that Redis showed, or else a TTL after the death.
func (r *rest) expireBeat(id string) {
	due := r.beats[id]
	if due == 0 {
		due = r.w.now + int64(r.w.TTL)
	}
	r.w.at(due+beatSlack, func() {
		until, beats := r.beats[id]
		switch {
		case !beats:
		case until > due:
			r.expireBeat(id)
		default:
			r.forget(id)
			r.change(r.w.settle())
		}
	})
}

func (r *rest) sessions() { r.change(r.w.settleSessions()) }

func (r *rest) phase() {
	if r.w.phase == "end" {
		r.pending, r.atRest = false, false
	}
}

func (r *rest) injected(inj *injection) {
	r.wasAtRest = r.atRest || r.leaves(inj)
	r.forgot = r.forgot || inj.forgets()
	if inj.has(fault.Aside) {
		return
	}
	r.by = inj
	if r.pending && (inj.did != didPlan || inj.has(fault.Silences|fault.Denies|fault.Disconnects|fault.Deletes)) {
		for _, l := range r.observers {
			l.disturbed(inj)
		}
	}
	settle := r.w.settle()
	switch {
	case inj.has(fault.Kills | fault.Deletes):
		settle += int64(r.w.TTL)
	case inj.forgets():
		settle += int64(r.w.TTL + r.w.Renew)
	}
	r.change(settle)
}

// leaves reports whether the injection itself ended the rest: its effect in Redis may be stamped a moment earlier.
func (r *rest) leaves(inj *injection) bool {
	return inj.node != nil && inj.node.current != nil && inj.node.current.id == r.left && r.w.now-r.leftAt <= int64(stampAllowance)
}

func (r *rest) healed(inj *injection) {
	if !inj.has(fault.Aside) {
		r.by = inj
	}
	switch {
	case r.w.forgets(inj): // nothing is granted during a quarantine, and sessions are restored
		r.change(int64(r.w.TTL+r.w.Renew) + r.w.settleSessions())
	case inj.silences(), inj.ofRedis():
		settle := r.w.settle()
		if inj.did == didPlan && inj.has(fault.BlocksAcquire) || inj.blocksAcquire {
			settle += int64(r.w.TTL)
		}
		r.change(settle + inj.lingers())
		for _, n := range r.w.nodes {
			if inj.node == nil || inj.node == n {
				r.back(n)
			}
		}
	}
}

// back waits for the next heartbeat of an instance that was silent: the others count the instance again when they see it.
func (r *rest) back(n *node) {
	switch {
	case n == nil || n.current == nil || n.current.gone:
	case !r.tap:
		r.change(r.w.settle() + int64(r.w.Heartbeat))
	default:
		id := n.current.id
		r.returns[id] = true
		r.w.at(r.w.now+int64(r.w.TTL), func() { // it does not return, so the wait ends
			if r.returns[id] {
				delete(r.returns, id)
				r.change(r.w.settle())
			}
		})
	}
}

func (r *rest) forget(id string) {
	delete(r.beats, id)
	delete(r.dead, id)
	delete(r.returns, id)
}

// held returns how much longer a lease may stay with its owner, which waits for a poll that the target does not answer.
func (r *rest) held() int64 {
	for _, k := range r.w.since(r.since - int64(r.w.PollTimeout)) {
		if k.has(fault.Holds) && (k.open || k.end+int64(r.w.PollTimeout) >= r.since) {
			return int64(r.w.PollTimeout)
		}
	}
	return 0
}

func (r *rest) moved() {
	if r.atRest && !r.movedAtRest {
		r.movedAtRest = true
		for _, l := range r.observers {
			l.movedAtRest()
		}
	}
}

// live returns the instances that should own sessions now: alive, and with a heartbeat.
func (r *rest) live() map[*instance]int64 {
	live := map[*instance]int64{}
	for id := range r.beats {
		if i := r.w.instances[id]; i != nil && i.ready && !i.gone {
			live[i] = 0
		}
	}
	return live
}
