package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
)

// yield makes the shell end the work under l. The release follows with the shell's EvDrop, not before the work has ended: otherwise two
// instances would work under the lease.
func (c *Core) yield(l *lease, to string, cause Cause) {
	l.yielding = true
	l.heir, l.cause, l.since = heir{id: to}, cause, c.k.Now()
	c.tells.tell(Tell{Kind: TellYield, Cause: cause, ID: l.ID(), Fence: l.Fence(), Owner: to})
}

func (c *Core) keep(l *lease, cause Cause) {
	l.yielding, l.heir = false, heir{}
	c.tells.tell(Tell{Kind: TellKept, Cause: cause, ID: l.ID(), Fence: l.Fence()})
}

func (c *Core) drop(id string, cause Cause) {
	l, ok := c.leases[id]
	if !ok {
		return
	}
	l.want, l.wait = false, false
	switch l.Phase() {
	case owned:
		if l.yielding {
			cause = l.cause
		}
		c.release(l, cause)
	case acquiring, releasing:
		l.place = false
	case idle:
		l.place = false
		if !l.unanswered && len(l.stuck) == 0 {
			c.forget(l)
		}
	}
}

// release gives a term back. Trust ends now; the key is deleted when the request reaches Redis.
func (c *Core) release(l *lease, cause Cause) {
	switch cause {
	case CauseDrain:
		l.heir = heir{id: c.table.HeirOf(l.session)}
	case CauseRebalance:
		if c.k.Now()-l.since >= Time(c.cfg.Discovery/10) && l.session != place.Nobody { // its work took long to end
			l.heir.id = c.table.HeirNow(l.session, l.heir.id)
		}
	case CauseUnwanted:
		l.heir = heir{none: true}
	default:
		l.heir = heir{}
	}
	c.unhold(l, releasing)
	l.place, l.told = false, false
	l.since = c.k.Now()
	c.releasing++
	c.table.OwnedBy(l.session, l.heir.id)
	c.tells.tell(Tell{Kind: TellReleased, Cause: cause, ID: l.ID(), Fence: l.Fence(), Owner: l.heir.id})
	c.requestRelease(l)
}

func (c *Core) requestRelease(l *lease) {
	c.req.add(OpRelease, l)
	c.timers.armLease(l, l.since+Time(c.cfg.TTL))
}

func (c *Core) releaseAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !c.k.Settles(&in.op, &l.Term) {
			continue
		}
		switch r := a.result(i); {
		case a.Stale:
			c.requestRelease(l)
		case r.Outcome == OutLost && r.Owner == c.cfg.Instance && len(l.stuck) > 0:
			c.k.Trace(l.ID(), c.k.TTLOf(OpRelease, &l.Term))
			c.released(l)
		case r.Outcome == OutLost && r.Owner == c.cfg.Instance:
			c.overtaken(l)
		case r.Outcome == OutUnknown:
			c.releaseFailed(l, CauseFailed, a.Text)
			c.timers.armLease(l, min(c.k.Now()+Time(c.cfg.MaxProbe), l.since+Time(c.cfg.TTL)))
		default:
			c.released(l)
		}
	}
}

// overtaken handles a release that found the lease ours under another fence: an unanswered attempt to acquire it was executed after the
// answered one. The lease is adopted, and the resulting term is released in turn.
func (c *Core) overtaken(l *lease) {
	c.releasing--
	c.acquiring++
	c.k.Trace(l.ID(), c.k.TTLOf(OpRelease, &l.Term))
	l.unanswered = true
	l.vacant(Vacancy{})
	l.Acquire()
	l.will(nextNothing)
	c.req.add(OpAcquire, l)
}

func (c *Core) released(l *lease) {
	l.End(idle)
	l.will(nextNothing)
	c.releasing--
	c.table.Touch(l.session)
	if l.session != place.Nobody && c.table.Owner(l.session) == 0 {
		c.table.OwnedBy(l.session, l.heir.id) // a discovery answered meanwhile still showed it as ours
	}
	l.vacant(Vacancy{})
	switch {
	case len(l.stuck) > 0:
		c.block(l)
	case l.want && !c.own.Leaving():
		c.tryAcquire(l)
	default:
		c.forget(l)
	}
}

// releaseFailed reports, once, that the release of l failed. It is retried: a late or repeated release does no harm, because it names the
// fence of its term.
func (c *Core) releaseFailed(l *lease, cause Cause, text string) {
	if !l.told {
		l.told = true
		c.tells.tell(Tell{Kind: TellReleaseFailed, Cause: cause, ID: l.ID(), Fence: l.Fence(), Text: text})
	}
}

func (c *Core) retryRelease(l *lease) {
	switch {
	case c.k.Now() >= l.since+Time(c.cfg.TTL):
		c.released(l) // the key has expired by now
	case l.Op() == 0:
		c.requestRelease(l)
	}
}

// abandon handles stuck work under a term. The term ends, if it has not yet. Its key is left to expire, because the work may still
// go on. A later term of the same lease does not end.
func (c *Core) abandon(id string, fence int64) {
	l := c.lease(id)
	if !slices.Contains(l.stuck, fence) {
		l.stuck = append(l.stuck, fence)
	}
	switch l.Phase() {
	case owned:
		if l.Fence() == fence {
			c.lost(l, CauseStuck, "")
		}
	case acquiring:
		c.k.Trace(id, c.k.TTLOf(OpAcquire, &l.Term)) // a key that the attempt wins is left to expire, too
		c.block(l)
	case idle:
		c.block(l)
	}
}

// block cancels all plans for l, whose work is stuck, and refuses it to a user who wants it.
func (c *Core) block(l *lease) {
	l.gen++ // cancels its timer
	l.place = false
	l.will(nextNothing)
	if l.want {
		c.refuse(l, refused{cause: CauseStuck})
		return
	}
	c.answered(l)
}

// recovered lets a lease be acquired again once all stuck work under it has returned.
func (c *Core) recovered(id string, fence int64) {
	l := c.leases[id]
	if l == nil || len(l.stuck) == 0 {
		return
	}
	l.stuck = slices.DeleteFunc(l.stuck, func(f int64) bool { return f == fence })
	switch {
	case len(l.stuck) > 0 || l.Phase() != idle:
	case l.want: // a user waits for it
		c.tryAcquire(l)
	default:
		c.forget(l)
		c.table.Discover(place.DiscoverRecovered)
	}
}
