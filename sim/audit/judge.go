package audit

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

// rivals judges t against the other terms of its lease: no two beliefs overlap (G1). An order that the clocks leave open is decided by what
// follows: an owner that has given a lease back did so before the next grant.
func (a *Auditor) rivals(t *term) {
	for _, o := range t.lease.terms {
		if o.inst == t.inst || o.fence == t.fence {
			continue
		}
		first, second := o, t
		if o.fence > t.fence {
			first, second = t, o
		}
		a.overlaps(first, second)
	}
}

func (a *Auditor) overlaps(first, second *term) {
	if slices.Contains(first.rivals, second) {
		return
	}
	open := false
	for k := range first.beliefs {
		b := &first.beliefs[k]
		least, most := a.ends(first, b)
		for n := range second.beliefs {
			c := &second.beliefs[n]
			_, end := a.ends(second, c)
			if most.before(c.from) || !c.open && end.before(b.from) {
				continue
			}
			if first.end == released && !b.open && c.from.gap(least) <= 0 && k == len(first.beliefs)-1 {
				continue
			}
			switch by := c.from.gap(least); {
			case a.apart(first.inst, second.inst):
				a.owner.doubt("two fleets, or two runs of one, have a lease of the same name")
			case by > 0 && first.over == 0 && c.from.gap(first.inst.instant(first.confirmed)) <= int64(a.p.RenewTimeout) && a.now < second.began.wall+int64(a.p.TTL) && !a.flushing:
				open = true // what follows may explain it
				continue
			case by > 0 && a.deleted(first, second, b, by):
				a.owner.doubt("an owner lost its lease in Redis while it believed: another program may have deleted the key")
			case by > 0:
				a.owner.fail(a.breach(second.lease, c.from.wall, least.wall, first, second), true, ms(by),
					"%s and %s both trusted %s: the first (fence %d) until %s, the second (fence %d) from %s, by their clocks; at least %d ms",
					first.inst.id, second.inst.id, first.lease.name, first.fence, stamp(least.wall), second.fence, stamp(c.from.wall), ms(by))
			case b.open && first.over == 0 && a.now < most.wall+int64(a.p.TTL) && !a.flushing:
				open = true // what follows decides
				continue
			default:
				a.owner.doubt("beliefs overlap within the error of the clocks, or windows that are not logged")
			}
			first.rivals = append(first.rivals, second)
			return
		}
	}
	if open {
		a.later(max(second.began.wall, a.now)+int64(a.p.TTL)/2, func() { a.overlaps(first, second) })
	}
}

// beyond judges a window that exceeds the lease: Redis granted or extended it before its owner logged that.
func (a *Auditor) beyond(t *term, until int64) {
	if t.steps != t.inst.clock.steps { // the window moves with the clock
		return
	}
	most := t.confirmed + t.ttl
	if t.redis != 0 && t.run != 0 && t.run == t.inst.clock.run && t.confirmed == t.began.wall {
		most = min(most, t.redis+t.ttl-t.inst.clock.offset(t.confirmed).lo)
	}
	if by := until - most; by > int64(stampAllowance) {
		a.owner.fail(a.breach(t.lease, most, until, t), false, ms(by), "%s trusts %s (fence %d) until %s, but Redis had granted it until %s at the latest",
			t.inst.id, t.lease.name, t.fence, stamp(until), stamp(most))
	}
}

// stampAllowance is the allowance of G1 for windows.
const stampAllowance = 5 * time.Millisecond

// polls judges the beginning of a poll.
func (a *Auditor) polls(i *instance, e *entry) {
	t := i.open[a.lease(e.lease)]
	if t == nil || t.doubt && e.at > t.failed+grace {
		a.closed.exercised++
		a.closed.fail(a.breach(a.lease(e.lease), e.at, e.at, t), true, 1, "%s began a poll of %s at %s without trust in its lease", i.id, e.lease, stamp(e.at))
	}
}

// deleted reports whether a deletion of the key by hand may explain an overlap. Then the lease was granted before it could expire, and its
// owner noticed that within a renewal interval and its timeout, or was asleep until its window had ended.
func (a *Auditor) deleted(first, second *term, b *belief, by int64) bool {
	if second.began.gap(first.inst.instant(first.confirmed)) > int64(a.p.RenewTimeout) { // Redis confirmed it after the second grant
		return false
	}
	if first.inst.instant(first.confirmed).until(second.granted()).hi >= first.ttl-int64(a.p.RenewTimeout) || b.why == "redis forgot" ||
		first.epoch != second.grantedIn {
		return false
	}
	asleep := b.why == "expired" && first.ended.wall > b.to.wall+grace
	return asleep || b.why != "expired" && by <= int64(a.p.Renew+a.p.RenewTimeout)+int64(check.FailoverAllowance)
}

// fences judges that the fences of a lease rise in the order of grants (G3).
func (a *Auditor) fences(l *lease, t *term) {
	top := l.top
	switch {
	case top == nil:
		return
	case t.fence > top.fence:
		a.rise.exercised++
		return
	}
	a.rise.exercised++
	granted := t.redis != 0 && top.redis != 0 && t.run == top.run && t.run != 0
	switch {
	case a.apart(t.inst, top.inst):
		a.rise.doubt("two fleets, or two runs of one, have a lease of the same name")
	case t.fence == top.fence, granted && t.redis > top.redis, !granted && top.began.gap(t.began) > 0:
		a.rise.fail(a.breach(l, t.began.wall, t.began.wall, top, t), false, 1, "the term that %s began for %s has fence %d, the one before it (%s) had %d",
			t.inst.id, l.name, t.fence, top.inst.id, top.fence)
	case granted: // it was granted before, and logged after
	default:
		a.rise.doubt("the clocks leave the order of two grants open")
	}
}

// due returns the host's time after which an entry must have said how the renewal of t went, or that t is over.
func (a *Auditor) due(t *term) int64 {
	end := a.window(t).hi + grace
	if t.inst.renewals > 0 {
		end = min(end, t.confirmed+int64(a.p.Renew+a.p.RenewTimeout*101/100)+int64(check.FailoverAllowance))
	}
	return end
}

// grace is how long a process that was frozen may take to notice what is overdue.
const grace = int64(100 * time.Millisecond)

// overdue judges the terms whose renewal or window is overdue although their process runs (G4).
func (a *Auditor) overdue(i *instance, now int64) {
	i.nextDue = forever.hi
	for _, t := range i.terms() {
		due := a.due(t)
		switch {
		case t.doubt || t.judged:
			continue
		case now <= due:
		case i.renewals == 0:
			a.closed.doubt("the log leaves out renewals")
			continue
		case t.late == 0:
			t.late = now
			due = now + grace
		case now <= t.late+grace:
			due = t.late + grace
		default:
			t.judged = true
			a.closed.exercised++
			a.closed.fail(a.breach(t.lease, due, now, t), true, 1, "%s last confirmed %s (fence %d) at %s, and at %s it had logged neither a renewal nor a "+
				"failure, nor that it lost the lease", i.id, t.lease.name, t.fence, stamp(t.confirmed), stamp(now))
			continue
		}
		i.nextDue = min(i.nextDue, due)
	}
}

// incident is the end of an instance, with its leases that others acquired.
type incident struct {
	pending, late int
	fails         []func()
}

// takenOver judges a lease that t takes over from another instance: after a release in time (G13), or after a crash (G5).
func (a *Auditor) takenOver(l *lease, t *term) {
	prev := l.top
	if prev == nil || prev.inst == t.inst || prev.fence > t.fence {
		return
	}
	a.owner.exercised++
	switch {
	case prev.end == released && prev.why == "drain":
		a.change(&a.stop, prev, t, func() (took span, limit int64, unclear bool) {
			return prev.ended.until(t.granted()), int64(check.FailoverAllowance), false
		})
	case prev.end == other && !prev.inst.gone:
		last, tick, regular := prev.inst.last, prev.inst.renewedAt, prev.inst.renewals > 0
		at := t.granted()
		a.change(&a.failover, prev, t, func() (took span, limit int64, unclear bool) {
			if prev.inst.last > last { // it lives, or ended later
				return span{}, 0, false
			}
			limit = prev.ttl + int64(check.FailoverAllowance)
			took = prev.inst.instant(last).until(at)
			if took.hi <= limit {
				return took, limit, false
			}
			// It crashed after its last entry. Its lease ends a TTL after the last renewal, unless another was under way as it crashed.
			took = prev.inst.instant(prev.confirmed).until(at)
			again := prev.inst.instant(tick + int64(a.p.Renew) - 2*grace).until(at)
			return took, limit, !regular || again.hi >= prev.ttl && took.lo <= limit+prev.ttl
		})
	}
}

// granted returns the instant of t's grant, if Redis' time is known, else that of its entry.
func (t *term) granted() instant {
	x := t.began
	if t.redis != 0 && t.run != 0 {
		x.redis, x.run, x.by = span{t.redis, t.redis}, t.run, nil
		x.abs.lo = forever.lo
	}
	return x
}

// change judges a takeover a while later, because what disturbed it may be logged later. Late is only what at least two leases of one
// instance were, since a session may have been paused meanwhile.
func (a *Auditor) change(f *finding, prev, t *term, measure func() (took span, limit int64, unclear bool)) {
	of := prev.inst.pending[f.id]
	if of == nil {
		of = &incident{}
		prev.inst.pending[f.id] = of
	}
	of.pending++
	at, wall := a.now, t.began.wall
	a.later(at+int64(a.p.Renew+a.p.RenewTimeout)+int64(a.p.TTL), func() {
		of.pending--
		took, limit, unclear := measure()
		switch {
		case limit == 0:
		case took.hi <= limit:
			f.exercised++
			f.value = max(f.value, ms(took.hi))
		case a.disturbed(prev.inst, at-took.hi):
			f.excused++
		case unclear || took.lo <= limit || a.flushing || !a.undisturbed(prev.inst, t, at-took.hi, at):
			f.doubt("late changes that the log does not explain")
		default:
			f.exercised++
			of.late++
			of.fails = append(of.fails, func() {
				f.fail(a.breach(t.lease, wall-took.lo, wall, prev, t), true, ms(took.lo), "%s was acquired by %s (fence %d) at %s, at least %d ms after the end of %s (limit %d ms)",
					t.lease.name, t.inst.id, t.fence, stamp(wall), ms(took.lo), prev.inst.id, ms(limit))
			})
		}
		if of.pending > 0 {
			return
		}
		if of.late == 1 {
			f.doubt("one lease was acquired late: its session may have been paused")
		} else {
			for _, fail := range of.fails {
				fail()
			}
		}
		delete(prev.inst.pending, f.id)
	})
}

// disturbed reports whether an instance but the gone one logged trouble since a TTL before from, or one more ended meanwhile.
func (a *Auditor) disturbed(but *instance, from int64) bool {
	from -= int64(a.p.TTL)
	for _, i := range a.instances {
		if i != but && i.trouble >= from {
			return true
		}
	}
	return false
}

// undisturbed reports whether an instance that could have acquired the lease has renewed regularly throughout, and the new owner's request
// took no time.
func (a *Auditor) undisturbed(but *instance, t *term, from, to int64) bool {
	if until := t.until; t.confirmed == t.began.wall && until != 0 && t.began.wall-(until-t.ttl+a.margin) > grace {
		return false
	}
	from -= int64(a.p.TTL)
	some := false
	for _, i := range a.instances {
		if i == but || i.last < from {
			continue
		}
		some = some || i.regular <= from && i.renewedAt >= to
	}
	return some
}

// rests records a change of the fleet.
func (a *Auditor) rests(at int64) { a.changed, a.weighed = at, false }

// balanced judges the shares of the instances once a fleet has been without a change (G6). Only sessions are shared. An imbalance is a
// break later than balance is a pass, because a heartbeat may have come or gone meanwhile, which no log shows.
func (a *Auditor) balanced(now int64) {
	if a.weighed || !a.shares || now < a.changed+a.p.Settle() || now < a.weighs {
		return
	}
	a.weighs = now + int64(a.p.Renew)
	least, most, n, total := forever.hi, int64(0), int64(0), int64(0)
	for _, i := range a.instances {
		if !i.gone && len(i.open) == 0 { // it has ended, or nobody gives it anything
			return
		}
		if i.gone || i.last < now-int64(a.p.Renew+a.p.RenewTimeout)-grace {
			continue
		}
		if i.trouble > a.changed || a.apart(i, a.any(i)) || a.apart(a.any(i), i) {
			return
		}
		held := int64(len(i.open))
		least, most, n, total = min(least, held), max(most, held), n+1, total+held
	}
	switch off := max(most*n-total, total-least*n); {
	case n == 0:
	case off <= n:
		a.balance.exercised++
		a.balance.value = max(a.balance.value, (off+n-1)/n)
		a.weighed = true
	case now > a.changed+int64(a.p.TTL+2*a.p.Discovery)+a.p.Settle():
		a.balance.exercised++
		a.weighed = true
		a.balance.fail(a.breach(nil, a.changed, now), true, (off+n-1)/n, "at %s, %s after the last change, %d instances share %d leases, and one has %d "+
			"and one %d", stamp(now), time.Duration(now-a.changed).Round(time.Millisecond), n, total, most, least)
	}
}

// any returns an instance of the fleet to which others are compared.
func (a *Auditor) any(i *instance) *instance {
	if a.one == nil || a.one.gone {
		a.one = i
	}
	return a.one
}

func (a *Auditor) breach(l *lease, from, to int64, terms ...*term) check.Break {
	b := check.Break{From: from, To: max(from, to)}
	if l != nil {
		b.Session = l.name
	}
	for _, t := range terms {
		if t != nil {
			b.Owners = append(b.Owners, check.Owner{Instance: t.inst.id, Fence: t.fence})
		}
	}
	return b
}

// timer is a judgement that waits.
type timer struct {
	at  int64
	run func()
}

// later runs f once the log is past at.
func (a *Auditor) later(at int64, f func()) {
	k, _ := slices.BinarySearchFunc(a.timers, at, func(t timer, at int64) int {
		if t.at <= at {
			return -1
		}
		return 1
	})
	a.timers = slices.Insert(a.timers, k, timer{at, f})
}

func (a *Auditor) judgeDue(now int64) {
	for len(a.timers) > 0 && a.timers[0].at < now {
		f := a.timers[0].run
		a.timers = a.timers[1:]
		f()
	}
}

func ms(ns int64) int64 { return (ns + 999_999) / 1_000_000 }

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z") }
