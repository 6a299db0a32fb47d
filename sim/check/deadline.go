package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// deadlines computes the deadlines of changes that a guarantee bounds in time. Faults may delay such a change.
type deadlines struct {
	*run
	host   *host
	fleet  *fleet
	faults *faults
}

// promise is the deadline of a change, and everything that may move that deadline.
type promise struct {
	from           int64      // start of the time in which faults can delay the change
	base           int64      // start of the measured time
	by             int64      // deadline if no fault delays the change
	settle         int64      // time allowed after the reach of the last fault that delayed it
	settleLife     int64      // the same after a quarantine of a Redis with replicas; 0: settle
	asserts        bool       // the change is an owner's assertion, which no quarantine delays
	anybody        bool       // any instance can make the change: faults of single nodes do not count if one of them was spared (spared)
	grantees       []*node    // nodes that Redis granted the lease to, reported or not: their faults count even with anybody
	only           *node      // the only node that can make the change; nil: any
	quarantineFrom int64      // start of the quarantine that the change waits for, late if faults kept all instances from Redis; 0: none
	session        *session   // session whose remaining lease of a gone instance must expire first; nil: none
	but            *injection // the fault that led to the change, which the promise allows for already
	kind           string     // cause of the change if it is not but
}

// widest is the longest allowance beyond the promise, in TTLs. With a longer allowance, the guarantee would judge nothing.
const widest = 2

// settleAfter returns how long a takeover may take after the reach of the last fault that delayed it.
func (p Params) settleAfter() int64 { return int64(p.TTL/10 + FailoverAllowance) }

// due returns the deadline of the change, and the fault that moved it last; nil if none did. A fault that is still open at a deadline moves
// it by the time to settle. What happens after a deadline does not move it.
func (d *deadlines) due(c promise) (until int64, by *injection) {
	until = c.by
	for {
		at := min(until, d.now)
		moved, mover := d.dueBy(c, at)
		if moved <= at {
			return until, by
		}
		if until, by = moved, mover; until > d.now || d.wide(c, until) {
			return until, by
		}
	}
}

// dueBy returns the deadline as far as it follows from events up to the time at.
func (d *deadlines) dueBy(c promise, at int64) (until int64, by *injection) {
	until, by = d.reached(c, at, c.by, nil)
	if over := c.quarantineFrom + int64(d.TTL) + c.settle; c.quarantineFrom != 0 && over > until && d.allows(lateQuarantine) {
		if late := cmp.Or(by, d.faults.delayed(c.from, c.quarantineFrom, c.but)); late != nil {
			until, by = d.reached(c, at, over, late)
		}
	}
	if c.session == nil || c.but == nil || !d.allows(leavings) {
		return until, by
	}
	if left := d.fleet.leftBehind(c.session); d.waits(c, until, left.from) && left.to > c.from && left.to+c.settle > until {
		return d.reached(c, at, left.to+c.settle, cmp.Or(by, c.but))
	}
	return until, by
}

// reached moves a deadline by the faults that can delay the change until that deadline. It ignores events after the time at.
func (d *deadlines) reached(c promise, at, until int64, by *injection) (int64, *injection) {
	if !d.allows(otherFaults) {
		return until, by
	}
	spared := c.anybody && d.spared(c)
	reach := func(inj *injection) (span, bool) {
		if inj.node != nil && (spared && !slices.Contains(c.grantees, inj.node) || c.only != nil && inj.node != c.only) {
			return span{}, false
		}
		return d.reachOf(c, inj, at)
	}
	for inj, r := range d.faults.reaching(c.from, c.but, reach) {
		if !d.waits(c, until, r.from) {
			break
		}
		if to := r.to + c.settleAfter(inj); to > until {
			until, by = to, inj
		}
	}
	return until, by
}

// reachOf returns the time in which the injection can delay this change. It ignores events after the time at.
func (d *deadlines) reachOf(c promise, inj *injection, at int64) (span, bool) {
	r, ok := d.faults.reachBy(inj, at)
	switch {
	case c.asserts:
		if inj.did == didPlan && inj.Has(fault.Silences) { // an attempt whose answer the fault took fails a timeout later
			r.to += int64(d.RenewTimeout)
		}
		return r, ok && inj.did != didLife
	case inj.blocksAcquire:
		r.to += int64(d.TTL)
	}
	return r, ok
}

// waits reports whether a change due at until is still pending at at. A stall of the host may delay the change by the length of the stall.
func (d *deadlines) waits(c promise, until, at int64) bool {
	return at <= until || at <= until+d.host.stall(c.base, at)
}

// settleAfter returns how long the change may take after the injection's reach.
func (c promise) settleAfter(inj *injection) int64 {
	switch life := inj.did == didLife; {
	case c.settleLife != 0 && life:
		return c.settleLife
	case c.asserts && inj.did != didPlan: // its reach includes the pause between two attempts
		return int64(assertAllowance)
	}
	return c.settle
}

// spared reports whether an instance that could make the change has been ready, and free of faults of its own, since a TTL before
// the change.
func (d *deadlines) spared(c promise) bool {
	since := c.from - int64(d.TTL)
	late := d.faults.since(since)
next:
	for _, n := range d.fleet.nodes {
		i := n.current
		if i == nil || !i.ready || i.gone || i.since > since || c.but != nil && c.but.node == n {
			continue
		}
		for _, inj := range late {
			if inj.node == n && inj.To >= since {
				continue next
			}
		}
		return true
	}
	return false
}

func (d *deadlines) wide(c promise, until int64) bool { return until-c.by > widest*int64(d.TTL) }

func (c promise) of() string {
	return cmp.Or(c.kind, c.but.name())
}
