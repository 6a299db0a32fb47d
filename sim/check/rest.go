package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// rest tracks when the fleet must be at rest: balanced, with no lease moving. G6 judges that state, G7 changes that begin from it.
//
// Every heartbeat or session that comes or goes, and the end of every fault, is a change, after which the fleet has some time to settle.
// While a fault lasts, or a heartbeat or lease of a dead process, it need not settle.
type rest struct {
	w         *world
	g6        *g6              // nil: nobody judges the rest
	beats     map[string]int64 // end of each instance's heartbeat, as Redis shows it (0: as long as the process lives)
	awaited   map[string]int64 // instances that a fault silenced until now, and until when their next heartbeat, a change, is awaited
	forgot    bool             // Redis lost data, and no heartbeat has come since: its quarantine has not begun
	since     int64            // time of the last change
	due       int64            // when all changes must have settled; at rest: when they had to
	atRest    bool
	wasAtRest bool       // atRest, when the last fault hit
	by        *injection // last fault that hit, or was healed, since the last rest; nil: none
	left      string     // instance whose heartbeat went last during rest
	leftAt    int64
}

// beatSlack is how late Redis may notice, and the tap show, the end of a heartbeat.
const beatSlack = int64(100 * time.Millisecond)

// change begins a time in which the fleet settles.
func (r *rest) change(settle int64) { r.changed(r.w.now, settle) }

func (r *rest) changed(at, settle int64) {
	r.atRest, r.since = false, max(r.since, at)
	if at+settle > r.due {
		r.due = at + settle
		r.w.at(r.due, r.look)
	}
}

// look decides whether the fleet must be at rest now.
func (r *rest) look() {
	if r.atRest || r.w.phase == "end" {
		return
	}
	settle := r.w.Settle()
	for id, until := range r.beats {
		if until != 0 && until+beatSlack <= r.w.now { // it ended unseen
			delete(r.beats, id)
			r.changed(until+beatSlack, settle)
		}
	}
	if r.w.now < r.due {
		return
	}
	stalled := r.w.stall(r.since, r.w.now)
	if due := max(r.due+stalled+r.held(), r.remains()+settle); due > r.w.now {
		r.w.at(due, r.look)
		return
	}
	if r.w.under(nil, fault.Silences|fault.Denies) {
		return // their end is a change of its own
	}
	r.atRest, r.due = true, r.w.now
	if r.g6 != nil {
		r.g6.rested(stalled)
	}
	r.by = nil
}

// remains returns when the last heartbeat or lease of a gone instance ends, and until when heartbeats are awaited.
func (r *rest) remains() (until int64) {
	for id, end := range r.beats {
		if r.w.gone(id) {
			until = max(until, end+beatSlack)
		}
	}
	for _, end := range r.awaited {
		until = max(until, end)
	}
	for _, s := range r.w.sessions.all {
		if k := s.granted; k != nil && r.w.gone(k.holder) {
			until = max(until, k.until)
		}
	}
	return until
}

// held returns how much longer a lease may stay with its owner, which waits for a poll that the target does not answer.
func (r *rest) held() int64 {
	timeout := int64(r.w.PollTimeout)
	for _, inj := range r.w.since(r.since - timeout) {
		if r.w.allows(heldPolls) && inj.Has(fault.Holds) && inj.To >= r.since-timeout {
			return timeout
		}
	}
	return 0
}

func (r *rest) redis(e *history.Event) {
	until, known := r.beats[e.Instance]
	switch e.Kind {
	case history.RedisBeat:
		if r.forgot && e.Reason != snapshotReason {
			r.forgot = false
			r.change(int64(r.w.TTL) + r.w.settleSessions())
		}
		r.beats[e.Instance] = e.Until
		if _, awaited := r.awaited[e.Instance]; awaited || !known {
			delete(r.awaited, e.Instance)
			r.change(r.w.Settle())
		}
	case history.RedisBeatGone:
		if !known {
			return
		}
		if r.atRest {
			r.left, r.leftAt = e.Instance, r.w.now
		}
		delete(r.beats, e.Instance)
		delete(r.awaited, e.Instance)
		settle := r.w.Settle()
		// A living instance removes its heartbeat if it could not acquire the leases meant for it. It keeps its leases, which the others do
		// not get, and returns after a TTL.
		if i := r.w.instances[e.Instance]; i != nil && !i.gone && i.leave == nil && until > r.w.now {
			settle += int64(r.w.TTL)
		}
		r.change(settle)
	case history.RedisFlushed:
		clear(r.beats)
		clear(r.awaited)
		r.change(r.w.settleSessions())
	}
}

func (r *rest) ready(i *instance) {
	if !r.w.Tap {
		r.beats[i.id] = 0
	}
	r.change(r.w.Settle())
}

func (r *rest) exited(i *instance) {
	delete(r.awaited, i.id)
	at := r.w.now
	if until, beats := r.beats[i.id]; beats && r.w.Tap {
		r.w.at(until+beatSlack, r.look)
	} else {
		delete(r.beats, i.id)
		if i.killed { // nothing shows the end of its heartbeat
			at += int64(r.w.TTL) + beatSlack
		}
	}
	r.changed(at, r.w.Settle())
}

func (r *rest) injected(inj *injection) {
	// The injection itself may have ended the rest, if its effect in Redis is stamped a moment earlier.
	left := inj.node != nil && inj.node.current != nil && inj.node.current.id == r.left && r.w.now-r.leftAt <= int64(stampAllowance)
	r.wasAtRest = r.atRest || left
	r.forgot = r.forgot || inj.forgets()
	if inj.Has(fault.Aside) {
		return
	}
	r.by = inj
	settle := r.w.Settle()
	switch {
	case inj.Has(fault.Kills | fault.Deletes):
		settle += int64(r.w.TTL)
	case inj.forgets():
		settle += int64(r.w.TTL + r.w.Renew)
	}
	r.change(settle)
}

func (r *rest) healed(inj *injection) {
	if !inj.Has(fault.Aside) {
		r.by = inj
	}
	settle := r.w.Settle() + inj.Lingers()
	switch {
	case r.w.forgets(inj): // nothing is granted during a quarantine, and sessions are restored
		r.change(int64(r.w.TTL+r.w.Renew) + r.w.settleSessions())
		return
	case !inj.Has(fault.Silences | fault.Denies):
		return
	case inj.Has(fault.BlocksAcquire), inj.blocksAcquire:
		settle += int64(r.w.TTL)
	}
	r.change(settle)
	for _, n := range r.w.nodes { // the others count those that were silent again when they see their next heartbeat
		switch i := n.current; {
		case i == nil || i.gone || inj.node != nil && inj.node != n:
		case r.w.Tap:
			r.awaited[i.id] = r.w.now + int64(r.w.TTL)
		default:
			r.change(r.w.Settle() + int64(r.w.Heartbeat))
		}
	}
}

// live returns the instances that should own sessions now, which are alive and have a heartbeat, and the living without a heartbeat.
func (r *rest) live() (live, absent []*instance) {
	for _, id := range sortedKeys(r.w.instances) {
		if i := r.w.instances[id]; i.ready && !i.gone {
			if _, beats := r.beats[id]; beats {
				live = append(live, i)
			} else {
				absent = append(absent, i)
			}
		}
	}
	return live, absent
}
