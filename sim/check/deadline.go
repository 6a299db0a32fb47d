package check

import (
	"cmp"
	"math"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// A fault may delay a change that a guarantee bounds in time (reach, in reach.go). This file computes the resulting deadline.

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

// widest is the longest allowance beyond the promise, in TTLs. A longer one would judge nothing.
const widest = 2

// settleAfter returns how long a takeover may take after the reach of the last fault that delayed it.
func (p Params) settleAfter() int64 { return int64(p.TTL/10 + FailoverAllowance) }

// due returns the deadline of the change, and the fault that moved it last; nil if none did. A fault that is still open at a deadline moves
// it by the time to settle. What happens after a deadline does not move it.
func (w *world) due(c promise) (until int64, by *injection) {
	until = c.by
	for {
		at := min(until, w.now)
		moved, mover := w.dueBy(c, at)
		if moved <= at {
			return until, by
		}
		if until, by = moved, mover; until > w.now || w.wide(c, until) {
			return until, by
		}
	}
}

// dueBy returns the deadline as it was known at the time at, without what happened later.
func (w *world) dueBy(c promise, at int64) (until int64, by *injection) {
	until, by = w.reached(c, at, c.by, nil)
	if over := c.quarantineFrom + int64(w.TTL) + c.settle; c.quarantineFrom != 0 && over > until && w.allows(lateQuarantine) {
		if late := cmp.Or(by, w.delayed(c.from, c.quarantineFrom, c.but)); late != nil {
			until, by = w.reached(c, at, over, late)
		}
	}
	if c.session == nil || c.but == nil || !w.allows(leavings) {
		return until, by
	}
	if left := w.leftBehind(c.session); w.waits(c, until, left.from) && left.to > c.from && left.to+c.settle > until {
		return w.reached(c, at, left.to+c.settle, cmp.Or(by, c.but))
	}
	return until, by
}

// reached moves a deadline by the faults that can delay the change until then, by what had happened at at.
func (w *world) reached(c promise, at, until int64, by *injection) (int64, *injection) {
	if !w.allows(otherFaults) {
		return until, by
	}
	spared := c.anybody && w.spared(c)
	reach := func(inj *injection) (span, bool) {
		if inj.node != nil && (spared && !slices.Contains(c.grantees, inj.node) || c.only != nil && inj.node != c.only) {
			return span{}, false
		}
		return w.reachOf(c, inj, at)
	}
	for inj, r := range w.reaching(c.from, c.but, reach) {
		if !w.waits(c, until, r.from) {
			break
		}
		if to := r.to + c.settleAfter(inj); to > until {
			until, by = to, inj
		}
	}
	return until, by
}

// reachOf returns the time in which the injection can delay this change. What happened after at does not count.
func (w *world) reachOf(c promise, inj *injection, at int64) (span, bool) {
	r, ok := w.reachBy(inj, at)
	switch {
	case c.asserts:
		if inj.did == didPlan && inj.Has(fault.Silences) { // an attempt whose answer the fault took fails a timeout later
			r.to += int64(w.RenewTimeout)
		}
		return r, ok && inj.did != didLife
	case inj.blocksAcquire:
		r.to += int64(w.TTL)
	}
	return r, ok
}

// waits reports whether a change due at until is still pending at at. A stall of the host may delay it by as much.
func (w *world) waits(c promise, until, at int64) bool {
	return at <= until || at <= until+w.stall(c.base, at)
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

// availableSince returns the earliest time, not before since, from which an instance has been alive.
func (w *world) availableSince(since int64) int64 {
	if !w.allows(nobodyThere) {
		return since
	}
	if w.alive == 0 {
		return w.now
	}
	return max(since, w.populatedSince)
}

// candidateSince returns when an instance other than but can take part, after its start delay; 0 without such an instance or delay.
func (w *world) candidateSince(but *instance) int64 {
	if w.startDelay() == 0 || !w.allows(startOfMembers) {
		return 0
	}
	first := int64(math.MaxInt64)
	for _, i := range w.instances {
		if i.ready && !i.gone && i != but {
			first = min(first, i.since)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return first + w.startDelay()
}

// horizonTTLs is the age in TTLs at which a fault that is over reaches no recent change any more.
const horizonTTLs = 16

// since returns the injections that may reach a change after from, in order of their start.
func (w *world) since(from int64) []*injection {
	horizon := w.now - horizonTTLs*int64(w.TTL)
	if from < horizon {
		return w.injections
	}
	for ; w.passed < len(w.injections); w.passed++ {
		inj := w.injections[w.passed]
		r, _ := w.reach(inj)
		if inj.forgets() && inj.detectedAt == 0 || max(inj.To, r.to) >= horizon-int64(w.TTL) {
			break
		}
	}
	return w.injections[w.passed:]
}

// spared reports whether an instance that could make the change has been ready, and has met no fault of its own, since a TTL before it.
func (w *world) spared(c promise) bool {
	since := c.from - int64(w.TTL)
	late := w.since(since)
next:
	for _, n := range w.nodes {
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

func (w *world) wide(c promise, until int64) bool { return until-c.by > widest*int64(w.TTL) }

type standing uint8

const (
	inTime standing = iota
	tooLate
	unjudged
)

// held counts a change that came now. It returns the limit and the result.
func (h *hooks) held(c promise) (limit int64, stands standing) {
	took := h.w.now - c.base
	limit, stands = c.by-c.base, inTime
	if !h.within(took, limit, c.base) {
		until, by := h.w.due(c)
		if h.w.wide(c, until) {
			h.excuse(by.name())
			return limit, unjudged
		}
		if by != nil {
			h.prolong(by, until-c.by)
		}
		if limit = until - c.base; !h.within(took, limit, c.base) {
			stands = tooLate
		}
	}
	h.exercise(c.of())
	h.near(took, h.applied(took, limit, c.base))
	return limit, stands
}

func (c promise) of() string {
	return cmp.Or(c.kind, c.but.name())
}

// closer reports whether the first time is closer to its limit, or further beyond it, than the second.
func closer(took, limit, than, thanLimit int64) bool {
	return thanLimit == 0 || ms(took)*ms(thanLimit) > ms(than)*ms(limit)
}

// near keeps the time that came closest to its limit, or furthest beyond it.
func (h *hooks) near(took, limit int64) {
	if closer(took, limit, h.worst, h.allowed) {
		h.worst, h.allowed = took, limit
	}
}

// wait is a change that must come by its deadline. It is judged once: when it comes, or when it was due.
type wait struct {
	h       *hooks
	now     func() promise          // the promise, by what is known now
	pending func() bool             // false: nothing is judged any more; nil: true
	missed  func(limit int64)       // reports a missed deadline at once
	late    func(took, limit int64) // reports a late change when it comes, or at the end of the run
	excused func(by *injection)     // nil: the change is counted as excused
	took    *measure.Times          // nil: the times of the changes that came are not collected
	over    bool
	since   int64 // start of the measured time of the missed deadline
	limit   int64 // the limit that it missed; 0: none
}

func (h *hooks) expect(x wait) *wait {
	x.h = h
	x.look()
	return &x
}

func (x *wait) look() {
	w := x.h.w
	if x.over || w.phase == "end" || x.pending != nil && !x.pending() {
		return
	}
	p := x.now()
	if w.now <= p.base {
		w.at(max(p.by, w.next), x.look) // nothing ends the wait before the next event
		return
	}
	until, by := w.due(p)
	wide := w.wide(p, until)
	if wide {
		until = p.by + widest*int64(w.TTL)
	}
	if at := until + w.stall(p.base, max(w.now, until)); at > w.now {
		if by != nil && by.lasts() { // the deadline moves on with time, and nothing ends that before the next event
			at = max(at, w.next)
		}
		w.at(at, x.look)
		return
	}
	x.over = (wide || x.missed != nil) && x.excused == nil
	switch {
	case wide && x.excused != nil:
		x.excused(by)
	case wide:
		x.h.excuse(by.name())
	case x.missed != nil:
		x.count(p, w.now-p.base, until-p.base)
		x.missed(until - p.base)
	default:
		x.since, x.limit = p.base, until-p.base
		x.h.overdue = append(x.h.overdue, x)
	}
}

// came judges the change, which comes now. Nothing is judged twice.
func (x *wait) came() (took, limit int64, stands standing) {
	if x.over {
		return 0, 0, unjudged
	}
	x.over = true
	p := x.now()
	if x.limit == 0 {
		took = x.h.w.now - p.base
		if limit, stands = x.h.held(p); stands != unjudged && x.took != nil {
			x.took.Add(took)
		}
	} else {
		took, limit, stands = x.h.w.now-x.since, x.limit, tooLate
		x.count(p, took, limit)
	}
	if stands == tooLate && x.late != nil {
		x.late(took, limit)
	}
	return took, limit, stands
}

// count counts a change that missed its deadline.
func (x *wait) count(p promise, took, limit int64) {
	x.h.exercise(p.of())
	x.h.near(took, limit)
	if x.took != nil {
		x.took.Add(took)
	}
}

// finish judges the changes that were due and have not come.
func (h *hooks) finish() {
	for _, x := range h.overdue {
		x.came()
	}
}
