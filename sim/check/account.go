package check

import (
	"cmp"
	"math"
	"slices"
)

// A fault may delay what a guarantee bounds in time (reach, in injection.go). Here that becomes the instant by which a change is due.

// promise is that a change comes by an instant.
type promise struct {
	from           int64      // since when faults can delay it
	base           int64      // what the promise counts from
	by             int64      // when it is due if no fault delays it
	settle         int64      // how long after the last of what delayed it it is due
	settleLife     int64      // where given: how long after the end of a quarantine of a Redis with replicas
	asserts        bool       // it is that an owner asserts what it has, which no quarantine delays
	anybody        bool       // any instance can bring it about: faults of one hold nobody up where another has met none
	grantees       []*node    // to whom Redis granted it, whether or not they said so: faults of these delay it
	only           *node      // where given: nobody else can bring it about, and faults of others delay nothing
	quarantineFrom int64      // where given: when the quarantine began that it waits for, which is late where faults kept everybody from Redis
	session        *session   // where given: what somebody left of its lease who is gone is waited for
	but            *injection // what it follows from, which the promise allows for
	kind           string     // what brought it about, where that is not but
}

// widest is the longest allowance, in TTLs beyond the promise, that still judges anything.
const widest = 2

// settleAfter is how long after the end of what delayed it a takeover is due.
func (p Params) settleAfter() int64 { return int64(p.TTL/10 + failoverAllowance) }

// due returns when the change must have come, and the fault that moved that last; nil: none did. A fault that goes on reaches until now.
func (w *world) due(c promise) (until int64, by *injection) {
	until, by = w.reached(c, c.by, nil)
	if over := c.quarantineFrom + int64(w.TTL) + c.settle; c.quarantineFrom != 0 && over > until {
		if late := cmp.Or(by, w.delayed(c.from, c.quarantineFrom, c.but)); late != nil {
			until, by = w.reached(c, over, late)
		}
	}
	if c.session == nil || c.but == nil {
		return until, by
	}
	if left := w.leftBehind(c.session); w.waits(c, until, left.from) && left.to > c.from && left.to+c.settle > until {
		return w.reached(c, left.to+c.settle, cmp.Or(by, c.but))
	}
	return until, by
}

// reached moves an instant on by the faults that can delay the change until then.
func (w *world) reached(c promise, until int64, by *injection) (int64, *injection) {
	spare := c.anybody && w.untouched(c)
	met := 0
	reach := func(inj *injection) (span, bool) {
		if inj.node != nil && (spare && !slices.Contains(c.grantees, inj.node) || c.only != nil && inj.node != c.only) {
			return span{}, false
		}
		if c.asserts {
			r, ok := w.reach(inj)
			if inj.did == didPlan && inj.silences() { // an attempt whose answer it took is given up a time-out later
				r.to += int64(w.RenewTimeout)
			}
			return r, ok && inj.did != didLife && inj.did != didWithin
		}
		return w.acquireReach(inj)
	}
	for inj, r := range w.reaching(c.from, c.but, reach) {
		if !w.waits(c, until, r.from) {
			break
		}
		if at := r.to + c.settleAfter(inj); at > until {
			until, by = at, inj
		}
		if met++; met == denseFaults && by != nil {
			return max(c.by+widest*int64(w.TTL)+1, w.now), by
		}
	}
	return until, by
}

// waits reports whether a change that is due by an instant is still waited for at another: by as much as the host stalled it may be late.
func (w *world) waits(c promise, until, at int64) bool {
	return at <= until || at <= until+w.stall(c.base, at)
}

// settleAfter is how long after the end of what an injection reaches the change is due.
func (c promise) settleAfter(inj *injection) int64 {
	switch life := inj.did == didLife || inj.did == didWithin; {
	case c.settleLife != 0 && life:
		return c.settleLife
	case c.asserts && inj.did != didPlan: // its reach has the pause between two attempts
		return int64(assertAllowance)
	}
	return c.settle
}

// availableSince is from when on, at the earliest, an instance is there who can do what is due since then.
func (w *world) availableSince(since int64) int64 {
	if w.alive == 0 {
		return w.now
	}
	return max(since, w.populatedSince)
}

// candidateSince is from when on somebody but the given one takes part: members of an election do some time after they came.
func (w *world) candidateSince(but *instance) int64 {
	if w.startDelay() == 0 {
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

// denseFaults is how many faults may delay one change before it is not judged: more than any plan has, and most storms with replicas.
const denseFaults = 128

// horizon has the injections that may still reach a change from then on. One that never ends keeps none of the others.
type horizon struct {
	from int64
	all  []*injection
}

// horizonTTLs is how far it lies: nearly all that is judged is over within that.
const horizonTTLs = 16

// since returns the injections, without those that reach no change from then on as far as the horizon has passed them.
func (w *world) since(from int64) []*injection {
	if to := w.now - horizonTTLs*int64(w.TTL); to > w.near.from+int64(w.TTL) {
		var all []*injection // whoever goes through those of before goes on
		for _, inj := range w.near.all {
			r, _ := w.reach(inj)
			if inj.open || inj.forgets() && inj.detectedAt == 0 || max(inj.end, inj.start, r.to)+int64(w.TTL) >= to {
				all = append(all, inj)
			}
		}
		w.near = horizon{to, all}
	}
	if from >= w.near.from {
		return w.near.all
	}
	return w.injections
}

// untouched reports whether an instance that could bring the change about has met no fault of its own for a TTL before it, nor since.
func (w *world) untouched(c promise) bool {
	since := c.from - int64(w.TTL)
	late := w.since(since)
next:
	for _, n := range w.nodes {
		i := n.current
		if i == nil || !i.ready || i.gone || i.since > since || c.but != nil && c.but.node == n {
			continue
		}
		for _, inj := range late {
			if inj.node == n && (inj.open || max(inj.start, inj.end) >= since) {
				continue next
			}
		}
		return true
	}
	return false
}

func (w *world) wide(c promise, until int64) bool { return until-c.by > widest*int64(w.TTL) }

// standing is how a change that came stands to its promise.
type standing uint8

const (
	inTime standing = iota
	tooLate
	unjudged // it is excused
)

// held counts a change that came now, and returns what it was held against.
func (h *hooks) held(c promise) (limit int64, stands standing) {
	took := h.w.now - c.base
	limit, stands = c.by-c.base, inTime
	if !h.within(took, limit, c.base) {
		until, by := h.w.due(c)
		if h.w.wide(c, until) {
			h.excuse(by)
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

// of is what brought the change about.
func (c promise) of() string {
	return cmp.Or(c.kind, c.but.name())
}

// closer reports whether the first time comes closer to its limit (or further beyond it) than the second.
func closer(took, limit, than, thanLimit int64) bool {
	return thanLimit == 0 || ms(took)*ms(thanLimit) > ms(than)*ms(limit)
}

// near keeps what came closest to its limit, or furthest beyond it.
func (h *hooks) near(took, limit int64) {
	if closer(took, limit, h.worst, h.allowed) {
		h.worst, h.allowed = took, limit
	}
}

func (h *hooks) nearest(v *Verdict) {
	if h.allowed > 0 {
		v.Value, v.Limit = ms(h.worst), ms(h.allowed)
	}
}

// await calls missed with the limit once the change is overdue, or with the fault that excuses it. c returns the promise as it is then, and
// false once nothing is waited for.
func (w *world) await(c func() (promise, bool), missed func(limit int64, excused *injection)) {
	now, waits := c()
	if !waits {
		return
	}
	if w.now <= now.base {
		w.at(max(now.by, w.next), func() { w.await(c, missed) }) // nothing ends it before the next event
		return
	}
	until, by := w.due(now)
	if w.wide(now, until) && w.now > now.by {
		missed(until-now.base, by)
		return
	}
	if at := until + w.stall(now.base, max(w.now, until)); at > w.now {
		if by != nil && by.open || now.base == w.now { // it moves on with time, and nothing ends that before the next event
			at = max(at, w.next)
		}
		w.at(at, func() { w.await(c, missed) })
		return
	}
	missed(until-now.base, nil)
}
