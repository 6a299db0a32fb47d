package audit

import (
	"cmp"
	"time"

	"github.com/leasestorm/leasestorm/sim/audit/logs"
)

func (a *Auditor) take(e *logs.Entry) {
	a.start = cmp.Or(a.start, e.At)
	a.agenda.now = max(a.agenda.now, e.At)
	if a.instances.prune(a.agenda.now, int64(a.p.TTL)) {
		a.forgotten += int64(a.leases.prune(a.agenda.now))
	}
	a.agenda.reach(e.At)
	i := a.instances.get(e, a.agenda.now, int64(a.ClockError))
	a.closed.overdue(i, e.At)
	switch e.Kind {
	case logs.Alive:
	case logs.Dropped:
		a.dropped++
	case logs.Epoch, logs.ClockStep, logs.Drained, logs.Trouble, logs.Stalled:
		a.ofInstance(i, e)
	default:
		if e.Lease != "" {
			a.ofLease(i, a.leases.get(e.Lease), e)
		}
	}
	a.balance.weigh(e.At)
}

func (a *Auditor) ofInstance(i *instance, e *logs.Entry) {
	switch e.Kind {
	case logs.Epoch:
		a.balance.rests(e.At)
		i.joined = i.joined || i.first == e.At
		if i.epoch != "" || a.instances.epochs[e.Epoch] == nil { // else the instance has just started
			i.trouble = e.At
		}
		a.instances.meets(i, e.Epoch)
	case logs.ClockStep:
		i.trouble = e.At
		if e.Reason == "redis' clock jumped" {
			a.instances.redisStepped()
			return
		}
		i.clock.step(e.Wait)
		i.forgive()
	case logs.Drained:
		a.balance.rests(e.At)
		a.drained(i, e.At)
	case logs.Trouble:
		i.trouble = e.At
	case logs.Stalled:
		i.trouble = e.At
		i.forgive()
	}
}

func (a *Auditor) ofLease(i *instance, l *lease, e *logs.Entry) {
	t := i.open[l]
	if t != nil && e.Fence != 0 && t.fence != e.Fence {
		t = nil
	}
	switch e.Kind {
	case logs.Acquired:
		a.balance.rests(e.At)
		a.acquired(i, l, e)
	case logs.Renewed:
		a.renewed(i, l, t, e)
	case logs.RenewFailed:
		i.trouble = e.At
		a.failed(t, e)
	case logs.Lost, logs.Released:
		a.balance.rests(e.At)
		if e.Kind == logs.Lost {
			i.trouble = e.At
		} else if e.Reason == "drain" {
			i.released = e.At
		}
		a.ended(i, l, t, e)
	case logs.ReleaseFailed:
		i.trouble = e.At
		for _, t := range l.terms {
			t.unconfirmed = t.unconfirmed || t.fence == e.Fence
		}
	case logs.AcquireFailed:
		if e.Reason != "held" {
			i.trouble = e.At
		}
	case logs.Yield:
		a.balance.shared = a.balance.shared || e.Reason == "rebalance"
	case logs.Poll:
		a.closed.polls(i, l, e.At)
	}
}

func (a *Auditor) acquired(i *instance, l *lease, e *logs.Entry) {
	a.p.setTTL(e.TTL)
	ttl := cmp.Or(e.TTL, int64(a.p.TTL))
	if e.Redis != 0 && e.Until != 0 && i.run != 0 && !i.clock.grant(e.Redis, e.Until-ttl+a.p.margin, e.At, i.run) {
		a.clocks++
	}
	if old := i.open[l]; old != nil {
		a.abandon(old, e.At)
		a.told.lacks(during(l, e.At, e.At, old), 1, "%s began a new term of %s, and never logged that the one before (fence %d) was over",
			i.id, l.name, old.fence)
	}
	g := grant{fence: e.Fence, ttl: ttl, redis: e.Redis, run: i.run, epoch: i.epoch, began: i.clock.instant(e.At)}
	t := &term{inst: i, lease: l, grant: g}
	if t.timed() {
		t.began.since(t.run, t.redis)
	}
	t.confirm(e.At, e.Until)
	a.closed.watch(t)
	t.beliefs[0].from = t.began
	a.owners.beyond(t, e.Until)
	a.owners.early(t, e)
	a.told.exercised++
	a.fences.began(t)
	if prev := l.top; prev != nil && prev.inst != i && prev.fence <= t.fence {
		a.owners.exercised++
		a.takeovers.began(prev, t)
	}
	l.begin(t, a.agenda.now)
	a.owners.rivals(t)
}

func (a *Auditor) renewed(i *instance, l *lease, t *term, e *logs.Entry) {
	const slack = int64(100 * time.Millisecond) // of a renewal that nothing disturbed
	a.told.exercised++
	if e.At-i.renewedAt > int64(a.p.Renew)+slack {
		i.regular = e.At
	}
	i.renewedAt = e.At
	i.renewals++
	if t == nil {
		a.unbegun(i, l, e, "%s renewed %s (fence %d), and logged no beginning of that term")
		if old := i.open[l]; old != nil {
			a.finish(old, logs.Lost, e.At, "")
		}
		t = &term{inst: i, lease: l, grant: grant{fence: e.Fence, ttl: int64(a.p.TTL), began: i.clock.instant(e.At)}, confirmed: e.At}
		l.begin(t, a.agenda.now)
	}
	t.confirm(e.At, e.Until)
	a.closed.watch(t)
	a.owners.rivals(t)
}

func (a *Auditor) failed(t *term, e *logs.Entry) {
	a.closed.exercised++
	if t == nil {
		return
	}
	a.owners.beyond(t, e.Until)
	t.cease(a.p, e.At, e.Until)
	t.doubt, t.late, t.failed = true, 0, e.At
	a.owners.rivals(t)
}

func (a *Auditor) ended(i *instance, l *lease, t *term, e *logs.Entry) {
	if t == nil {
		a.unbegun(i, l, e, "%s logged the end of a term of %s (fence %d) that had not begun, or was over")
		return
	}
	a.owners.beyond(t, e.Until)
	a.closed.expired(t, e)
	t.cease(a.p, e.At, e.Until)
	a.finish(t, e.Kind, e.At, e.Reason)
	a.owners.rivals(t)
}

// unbegun judges an entry of a term of which the log does not have the beginning.
func (a *Auditor) unbegun(i *instance, l *lease, e *logs.Entry, format string) {
	if i.joined {
		a.told.lacks(during(l, e.At, e.At), 1, format, i.id, l.name, e.Fence)
	} else {
		a.told.doubt("terms began before the log does")
	}
}

// drained judges an instance that says that all is released.
func (a *Auditor) drained(i *instance, at int64) {
	i.gone = at
	a.takeovers.drained(i, at)
	stop := &a.takeovers.stop
	for _, t := range i.terms() {
		stop.exercised++
		stop.lacks(during(t.lease, t.confirmed, at, t), 1, "%s said that everything is released, and did not release %s (fence %d)", i.id,
			t.lease.name, t.fence)
		a.abandon(t, at)
	}
}

// abandon ends a term whose end was not logged.
func (a *Auditor) abandon(t *term, at int64) {
	t.cease(a.p, at, 0)
	a.finish(t, logs.Lost, at, "")
}

func (a *Auditor) finish(t *term, how logs.Kind, at int64, why string) {
	t.finish(how, at, why, a.agenda.now+2*int64(a.p.TTL))
}
