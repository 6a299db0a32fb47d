package audit

import "time"

// balance judges the shares of the instances once a fleet has been without a change (G6). Only sessions are shared. An imbalance is a
// break later than balance is a pass, because a heartbeat may have come or gone meanwhile, which no log shows.
type balance struct {
	finding
	p         *limits
	instances *instances

	shared  bool  // sessions are shared
	changed int64 // the last change
	weighed bool  // the rest since is judged
	weighs  int64 // when to look at the shares again
	one     *instance
}

// rests records a change of the fleet.
func (b *balance) rests(at int64) { b.changed, b.weighed = at, false }

// weigh judges the shares, if it is time.
func (b *balance) weigh(now int64) {
	if b.weighed || !b.shared || now < b.changed+b.p.Settle() || now < b.weighs {
		return
	}
	b.weighs = now + int64(b.p.Renew)
	least, most, n, total, ok := b.shares(now)
	off := max(most*n-total, total-least*n)
	late := now > b.changed+int64(b.p.TTL+2*b.p.Discovery)+b.p.Settle()
	if !ok || n == 0 || off > n && !late {
		return
	}
	b.exercised++
	b.weighed = true
	by := (off + n - 1) / n
	b.value = max(b.value, by)
	if off > n {
		b.lacks(during(nil, b.changed, now), by, "at %s, %s after the last change, %d instances share %d leases, and one has %d and one %d",
			stamp(now), time.Duration(now-b.changed).Round(time.Millisecond), n, total, most, least)
	}
}

// shares returns the least and the most leases of n instances that run, and their sum; not ok: there is nothing to compare.
func (b *balance) shares(now int64) (least, most, n, total int64, ok bool) {
	least = forever.hi
	for _, i := range b.instances.all {
		held := int64(len(i.open))
		switch {
		case i.gone != 0:
		case held == 0: // it has ended, or nobody gives it anything
			return 0, 0, 0, 0, false
		case i.last < now-int64(b.p.Renew+b.p.RenewTimeout)-grace:
		case i.trouble > b.changed || b.foreign(i):
			return 0, 0, 0, 0, false
		default:
			least, most, n, total = min(least, held), max(most, held), n+1, total+held
		}
	}
	return least, most, n, total, true
}

// foreign reports whether the instance may be of another fleet than the first one that was looked at.
func (b *balance) foreign(i *instance) bool {
	if b.one == nil || b.one.gone != 0 {
		b.one = i
	}
	return apart(b.p, i, b.one) || apart(b.p, b.one, i)
}
