package core

import "slices"

// heir is who shall take a lease that is given back.
type heir struct {
	id   string // "": whoever comes first in order
	none bool   // nobody: its session is gone
}

// peer is h as the message of a release names it: nobody is named by who releases, who would not give a lease to itself.
func (h heir) peer(self string) string {
	if h.none {
		return self
	}
	return h.id
}

// heirNamed is the heir that a message of from names.
func heirNamed(peer, from string) heir {
	if peer == from {
		return heir{none: true}
	}
	return heir{id: peer}
}

// yield asks the shell to end the work under l; the release follows with its EvDrop (kubernetes learned that the hard
// way: a lock given back before its work returned is held by two).
func (c *Core) yield(l *lease, to string, cause Cause) {
	l.yielding = true
	l.heir, l.cause, l.since = heir{id: to}, cause, c.now.Mono
	c.tell(Tell{Kind: TellYield, Cause: cause, ID: l.id, Fence: l.fence, Owner: to})
}

// keep takes a yield back.
func (c *Core) keep(l *lease, cause Cause) {
	l.yielding, l.heir = false, heir{}
	c.tell(Tell{Kind: TellKept, Cause: cause, ID: l.id, Fence: l.fence})
}

func (c *Core) drop(id string, cause Cause) {
	l, ok := c.leases[id]
	if !ok {
		return
	}
	l.want, l.wait = false, false
	switch l.phase {
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

// release gives a term back: trust ends now, the key goes when Redis hears of it.
func (c *Core) release(l *lease, cause Cause) {
	switch cause {
	case CauseDrain:
		l.heir = heir{id: c.fleet.heirOf(l.session)}
	case CauseRebalance:
		if c.now.Mono-l.since >= Time(c.cfg.Discovery/10) && l.session != nobody { // its work took long to end
			l.heir.id = c.fleet.heirNow(l.session, l.heir.id)
		}
	case CauseUnwanted:
		l.heir = heir{none: true}
	default:
		l.heir = heir{}
	}
	c.unhold(l, releasing)
	l.place, l.told = false, false
	l.since = c.now.Mono
	c.releasing++
	c.fleet.ownedBy(l.session, l.heir.id)
	c.tell(Tell{Kind: TellReleased, Cause: cause, ID: l.id, Fence: l.fence, Owner: l.heir.id})
	c.requestRelease(l)
}

func (c *Core) requestRelease(l *lease) {
	c.queue.add(OpRelease, l)
	c.armLease(l, l.since+Time(c.cfg.TTL))
}

func (c *Core) releaseAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !c.settles(&in.op, &l.term) {
			continue
		}
		switch r := a.result(i); {
		case a.Stale:
			c.requestRelease(l)
		case r.Outcome == OutLost && r.Owner == c.self && len(l.stuck) > 0:
			c.traces.leave(l.id)
			c.released(l)
		case r.Outcome == OutLost && r.Owner == c.self:
			c.overtaken(l)
		case r.Outcome == OutUnknown:
			c.releaseFailed(l, CauseFailed, a.Text)
			c.armLease(l, min(c.now.Mono+Time(c.cfg.MaxProbe), l.since+Time(c.cfg.TTL)))
		default:
			c.released(l)
		}
	}
}

// overtaken takes a release that found the lease ours under another fence: an attempt to acquire it that was never answered
// was executed after the one that was. It is adopted, and the term that gives is released in turn.
func (c *Core) overtaken(l *lease) {
	c.releasing--
	c.acquiring++
	c.traces.leave(l.id)
	l.unanswered = true
	l.vacant(Vacancy{})
	l.phase = acquiring
	l.will(nextNothing)
	c.queue.add(OpAcquire, l)
}

func (c *Core) released(l *lease) {
	l.phase = idle
	l.will(nextNothing)
	l.op = 0
	c.releasing--
	c.fleet.touch(l.session)
	if l.session != nobody && c.fleet.known[l.session].owner == 0 {
		c.fleet.ownedBy(l.session, l.heir.id) // a look answered meanwhile had still shown it as ours
	}
	l.vacant(Vacancy{})
	switch {
	case len(l.stuck) > 0:
		c.block(l)
	case l.want && !c.draining:
		c.tryAcquire(l)
	default:
		c.forget(l)
	}
	c.drainedYet()
}

// releaseFailed tells that l is still to be released. That is tried again: the release names its term, so it can come late or
// twice without harm.
func (c *Core) releaseFailed(l *lease, cause Cause, text string) {
	if !l.told {
		l.told = true
		c.tell(Tell{Kind: TellReleaseFailed, Cause: cause, ID: l.id, Fence: l.fence, Text: text})
	}
}

func (c *Core) retryRelease(l *lease) {
	switch {
	case c.now.Mono >= l.since+Time(c.cfg.TTL):
		c.released(l) // Redis has let it expire by now
	case l.op == 0:
		c.requestRelease(l)
	}
}

// abandon notes that the work under a term is stuck. The term ends, if it has not: its key is left to expire, because the work may still
// be going on. A later term of the same lease is another's, and is not ended.
func (c *Core) abandon(id string, fence int64) {
	l := c.lease(id)
	if !slices.Contains(l.stuck, fence) {
		l.stuck = append(l.stuck, fence)
	}
	switch l.phase {
	case owned:
		if l.fence == fence {
			c.lost(l, CauseStuck, "")
		}
	case acquiring:
		c.traces.leave(id) // what it may win is left to expire too
		c.block(l)
		c.drainedYet()
	case idle:
		c.block(l)
	}
}

// block ends what is being done about l, whose work is stuck, and tells who waits for it.
func (c *Core) block(l *lease) {
	l.gen++ // its timer
	l.place = false
	l.will(nextNothing)
	if l.want {
		c.refuse(l, CauseStuck, "", 0, "")
		return
	}
	c.answered(l)
}

// recovered lets a lease be acquired again when the last of what was stuck under it has returned.
func (c *Core) recovered(id string, fence int64) {
	l := c.leases[id]
	if l == nil || len(l.stuck) == 0 {
		return
	}
	l.stuck = slices.DeleteFunc(l.stuck, func(f int64) bool { return f == fence })
	switch {
	case len(l.stuck) > 0 || l.phase != idle:
	case l.want: // it was asked for meanwhile, and is waited for
		c.tryAcquire(l)
	default:
		c.forget(l)
		c.fleet.discover(discoverRecovered)
	}
}
