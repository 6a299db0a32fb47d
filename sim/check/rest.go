package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// rest tracks when the fleet must be at rest: balanced, with no lease moving. G6 judges that state, and G7 judges changes that
// begin from it.
//
// Every heartbeat or session that comes or goes, and the end of every fault, is a change, after which the fleet has some time to
// settle. The fleet need not settle while a fault lasts, or while a heartbeat or lease of a dead process exists.
type rest struct {
	*run
	host      *host
	fleet     *fleet
	faults    *faults
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
func (r *rest) change(settle int64) { r.changed(r.now, settle) }

func (r *rest) changed(at, settle int64) {
	r.atRest, r.since = false, max(r.since, at)
	if at+settle > r.due {
		r.due = at + settle
		r.at(r.due, r.look)
	}
}

// look decides whether the fleet must be at rest now.
func (r *rest) look() {
	if r.atRest || r.phase == "end" {
		return
	}
	settle := r.Settle()
	for id, until := range r.beats {
		if until != 0 && until+beatSlack <= r.now { // it ended unseen
			delete(r.beats, id)
			r.changed(until+beatSlack, settle)
		}
	}
	if r.now < r.due {
		return
	}
	stalled := r.host.stall(r.since, r.now)
	if due := max(r.due+stalled+r.held(), r.remains()+settle); due > r.now {
		r.at(due, r.look)
		return
	}
	if r.faults.under(nil, fault.Silences|fault.Denies) {
		return // their end is a change of its own
	}
	r.atRest, r.due = true, r.now
	if r.g6 != nil {
		r.g6.rested(stalled)
	}
	r.by = nil
}

// remains returns when the last heartbeat or lease of a gone instance ends, and until when heartbeats are awaited.
func (r *rest) remains() (until int64) {
	for id, end := range r.beats {
		if r.fleet.gone(id) {
			until = max(until, end+beatSlack)
		}
	}
	for _, end := range r.awaited {
		until = max(until, end)
	}
	for _, s := range r.fleet.sessions {
		if k := s.granted; k != nil && r.fleet.gone(k.holder) {
			until = max(until, k.until)
		}
	}
	return until
}

// held returns how much longer a lease may stay with its owner if the owner waits for a poll that the target does not answer.
func (r *rest) held() int64 {
	timeout := int64(r.PollTimeout)
	for _, inj := range r.faults.since(r.since - timeout) {
		if r.allows(heldPolls) && inj.Has(fault.Holds) && inj.To >= r.since-timeout {
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
			r.change(int64(r.TTL) + r.settleSessions())
		}
		r.beats[e.Instance] = e.Until
		if _, awaited := r.awaited[e.Instance]; awaited || !known {
			delete(r.awaited, e.Instance)
			r.change(r.Settle())
		}
	case history.RedisBeatGone:
		if !known {
			return
		}
		if r.atRest {
			r.left, r.leftAt = e.Instance, r.now
		}
		delete(r.beats, e.Instance)
		delete(r.awaited, e.Instance)
		settle := r.Settle()
		// A living instance removes its heartbeat if it could not acquire the leases meant for it. It keeps its leases, which the others do
		// not get, and returns after a TTL.
		if i := r.fleet.instances[e.Instance]; i != nil && !i.gone && i.leave == nil && until > r.now {
			settle += int64(r.TTL)
		}
		r.change(settle)
	case history.RedisFlushed:
		clear(r.beats)
		clear(r.awaited)
		r.change(r.settleSessions())
	}
}

func (r *rest) ready(i *instance) {
	if !r.Tap {
		r.beats[i.id] = 0
	}
	r.change(r.Settle())
}

func (r *rest) exited(i *instance) {
	delete(r.awaited, i.id)
	at := r.now
	if until, beats := r.beats[i.id]; beats && r.Tap {
		r.at(until+beatSlack, r.look)
	} else {
		delete(r.beats, i.id)
		if i.killed { // nothing shows the end of its heartbeat
			at += int64(r.TTL) + beatSlack
		}
	}
	r.changed(at, r.Settle())
}

func (r *rest) injected(inj *injection) {
	// The injection itself may have ended the rest, because its effect in Redis may be stamped a moment before the injection.
	left := inj.node != nil && inj.node.current != nil && inj.node.current.id == r.left && r.now-r.leftAt <= int64(stampAllowance)
	r.wasAtRest = r.atRest || left
	r.forgot = r.forgot || inj.forgets()
	if inj.Has(fault.Aside) {
		return
	}
	r.by = inj
	settle := r.Settle()
	switch {
	case inj.Has(fault.Kills | fault.Deletes):
		settle += int64(r.TTL)
	case inj.forgets():
		settle += int64(r.TTL + r.Renew)
	}
	r.change(settle)
}

func (r *rest) healed(inj *injection) {
	if !inj.Has(fault.Aside) {
		r.by = inj
	}
	settle := r.Settle() + inj.Lingers()
	switch {
	case r.faults.forgets(inj): // nothing is granted during a quarantine, and sessions are restored
		r.change(int64(r.TTL+r.Renew) + r.settleSessions())
		return
	case !inj.Has(fault.Silences | fault.Denies):
		return
	case inj.Has(fault.BlocksAcquire), inj.blocksAcquire:
		settle += int64(r.TTL)
	}
	r.change(settle)
	for _, n := range r.fleet.nodes { // the others count those that were silent again when they see their next heartbeat
		switch i := n.current; {
		case i == nil || i.gone || inj.node != nil && inj.node != n:
		case r.Tap:
			r.awaited[i.id] = r.now + int64(r.TTL)
		default:
			r.change(r.Settle() + int64(r.Heartbeat))
		}
	}
}

// live returns the instances that should own sessions now, which are alive and have a heartbeat, and the living without a heartbeat.
func (r *rest) live() (live, absent []*instance) {
	for _, id := range sortedKeys(r.fleet.instances) {
		if i := r.fleet.instances[id]; i.ready && !i.gone {
			if _, beats := r.beats[id]; beats {
				live = append(live, i)
			} else {
				absent = append(absent, i)
			}
		}
	}
	return live, absent
}
