package audit

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/audit/logs"
)

const twoFleets = "two fleets, or two runs of one, have a lease of the same name"

// owners judges that a lease has one owner (G1): no two beliefs overlap, and no window exceeds its lease.
type owners struct {
	finding
	p *limits
	*agenda
	stray int // leases that a stray release of an earlier owner may have deleted
}

// rivals judges t against the other terms of its lease. An order that the clocks leave open is decided by what follows: an owner that has
// given a lease back did so before the next grant.
func (o *owners) rivals(t *term) {
	for _, r := range t.lease.terms {
		switch {
		case r.inst == t.inst || r.fence == t.fence || r.over != 0 && r.over < o.now:
		case r.fence > t.fence:
			o.overlaps(t, r)
		default:
			o.overlaps(r, t)
		}
	}
}

func (o *owners) overlaps(first, second *term) {
	if slices.Contains(first.rivals, second) {
		return
	}
	open := false
	for k := range first.beliefs {
		for n := range second.beliefs {
			judged, wait := o.overlap(first, second, &first.beliefs[k], &second.beliefs[n])
			if judged {
				first.rivals = append(first.rivals, second)
				return
			}
			open = open || wait
		}
	}
	if open {
		o.later(max(second.began.wall, o.now)+int64(o.p.TTL)/2, func() { o.overlaps(first, second) })
	}
}

// overlap judges the belief b of first and c of second. wait says that what follows may decide.
func (o *owners) overlap(first, second *term, b, c *belief) (judged, wait bool) {
	least, most := first.ends(o.p, b)
	_, end := second.ends(o.p, c)
	by := c.from.gap(least)
	given := first.end == logs.Released && !b.open && b == &first.beliefs[len(first.beliefs)-1]
	switch {
	case most.before(c.from), !c.open && end.before(b.from), given && by <= 0:
		return false, false
	case apart(o.p, first.inst, second.inst):
		o.doubt(twoFleets)
	case by > 0:
		if first.over == 0 && !o.confirmedAfter(first, c.from) && o.now < second.began.wall+int64(o.p.TTL) && !o.over {
			return false, true
		}
		if o.deleted(first, second) {
			if o.stray += o.strayed(first, second); o.stray < 2 {
				o.doubt("an owner lost its lease in Redis while it believed: another program may have deleted the key")
				break
			}
		}
		o.fail(during(second.lease, c.from.wall, least.wall, first, second), ms(by),
			"%s and %s both trusted %s: the first (fence %d) until %s, the second (fence %d) from %s, by their clocks; at least %d ms",
			first.inst.id, second.inst.id, first.lease.name, first.fence, stamp(least.wall), second.fence, stamp(c.from.wall), ms(by))
	case b.open && first.over == 0 && o.now < most.wall+int64(o.p.TTL) && !o.over:
		return false, true
	default:
		o.doubt("beliefs overlap within the error of the clocks, or windows that are not logged")
	}
	return true, false
}

// confirmedAfter reports whether Redis confirmed t after x, given how long an answer takes.
func (o *owners) confirmedAfter(t *term, x instant) bool {
	return x.gap(t.at(t.confirmed)) > int64(o.p.RenewTimeout)
}

// deleted reports whether a deletion of the key by another program may explain an overlap: Redis did not confirm the first term after it
// granted the second one, and both owners knew one epoch. A frozen owner may not notice a deletion until its window has ended.
func (o *owners) deleted(first, second *term) bool {
	return !o.confirmedAfter(first, second.began) && first.epoch == second.grant.epoch
}

// strayed returns 1 if an earlier owner could not confirm its release of the lease, and was still retrying when second acquired it. A
// retry must not delete the key of a later owner. One deletion by hand may coincide with such a release, but not two.
func (o *owners) strayed(first, second *term) int {
	for _, r := range first.lease.terms {
		if r.unconfirmed && r.fence < first.fence && second.began.wall < r.ended.wall+r.ttl {
			return 1
		}
	}
	return 0
}

// beyond judges a window that exceeds the lease: Redis granted or extended it before its owner logged that.
func (o *owners) beyond(t *term, until int64) {
	clock := &t.inst.clock
	if t.steps != clock.steps { // the window moves with the clock
		return
	}
	most := t.confirmed + t.ttl
	if t.timed() && t.run == clock.off[0].run && t.confirmed == t.began.wall {
		most = min(most, t.redis+t.ttl-clock.off[0].when(t.confirmed).lo)
	}
	const stampAllowance = 5 * time.Millisecond // of G1, for windows
	if by := until - most; by > int64(stampAllowance) {
		o.fail(during(t.lease, most, until, t), ms(by), "%s trusts %s (fence %d) until %s, but Redis had granted it until %s at the latest",
			t.inst.id, t.lease.name, t.fence, stamp(until), stamp(most))
	}
}

// early judges a window that counts from the answer, or leaves out the margin: its owner would have sent the request after the answer.
func (o *owners) early(t *term, e *logs.Entry) {
	if e.Redis == 0 || e.Until == 0 || e.At%int64(time.Millisecond) == 0 { // not of the library, or rounded
		return
	}
	if sent := e.Until - t.ttl + o.p.margin; sent >= e.At {
		o.fail(during(t.lease, e.At, e.Until, t), ms(sent-e.At), "%s trusts %s (fence %d) until %s, more than the TTL less its margin after the "+
			"request, because it had the answer at %s", t.inst.id, t.lease.name, t.fence, stamp(e.Until), stamp(e.At))
	}
}

// fences judges that the fences of a lease rise in the order of grants (G3).
type fences struct {
	finding
	p *limits
}

func (f *fences) began(t *term) {
	top := t.lease.top
	if top == nil {
		return
	}
	f.exercised++
	timed := t.timed() && top.timed() && t.run == top.run
	switch {
	case t.fence > top.fence:
	case apart(f.p, t.inst, top.inst):
		f.doubt(twoFleets)
	case t.fence == top.fence, timed && t.redis > top.redis, !timed && top.began.gap(t.began) > 0:
		f.fail(during(t.lease, t.began.wall, t.began.wall, top, t), 1,
			"the term that %s began for %s has fence %d, the one before it (%s) had %d", t.inst.id, t.lease.name, t.fence, top.inst.id, top.fence)
	case timed: // it was granted before, and logged after
	default:
		f.doubt("the clocks leave the order of two grants open")
	}
}
