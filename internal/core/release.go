package core

// yield asks the shell to end the work under l; the release follows with its EvDrop (kubernetes learned that the hard
// way: a lock given back before its work returned is held by two).
func (c *Core) yield(l *lease, heir string, cause Cause) {
	l.yielding = true
	l.heir, l.cause, l.since = heir, cause, c.now.Mono
	c.tell(Tell{Kind: TellYield, Cause: cause, ID: l.id, Fence: l.fence, Owner: heir})
}

// keep takes a yield back.
func (c *Core) keep(l *lease, cause Cause) {
	l.yielding, l.heir = false, ""
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
		if !l.unanswered && !l.stuck {
			c.forget(l)
		}
	}
}

// release gives a term back: trust ends now, the key goes when Redis hears of it.
func (c *Core) release(l *lease, cause Cause) {
	switch cause {
	case CauseDrain:
		l.heir = c.heirOf(l)
	case CauseRebalance:
		l.heir = c.stillHeir(l)
	case CauseUnwanted:
		l.heir = c.self // which tells the others that nobody shall take it
	default:
		l.heir = ""
	}
	c.unhold(l, releasing)
	l.place, l.told = false, false
	l.since = c.now.Mono
	c.releasing++
	c.setOwner(l, c.successor(l))
	c.tell(Tell{Kind: TellReleased, Cause: cause, ID: l.id, Fence: l.fence, Owner: c.successor(l)})
	c.requestRelease(l)
}

// stillHeir is who is to have l that was asked for. Where its work took long to end, who asked may have had its share from others
// since, and another lacks one.
func (c *Core) stillHeir(l *lease) string {
	if c.now.Mono-l.since < Time(c.cfg.Discovery/10) || l.session == nobody {
		return l.heir
	}
	c.placement()
	if i, ok := c.index[l.heir]; ok {
		if lacks, _ := c.lacks(i); lacks {
			return l.heir
		}
	}
	heir, best := l.heir, uint64(0)
	for _, i := range c.fleet.live {
		lacks, _ := c.lacks(i)
		if r := rank(c.nodes[i].hash, c.fleet.sessions.hashes[l.session]); i != 0 && lacks && r >= best {
			heir, best = c.nodes[i].id, r
		}
	}
	return heir
}

// successor is who is to own l after its release, "" for nobody in particular.
func (c *Core) successor(l *lease) string {
	if l.heir == c.self {
		return ""
	}
	return l.heir
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
	l.phase, l.next = acquiring, nextNothing
	c.queue.add(OpAcquire, l)
}

func (c *Core) released(l *lease) {
	l.phase, l.next = idle, nextNothing
	l.op = 0
	c.releasing--
	c.touch(l)
	if l.session != nobody && c.fleet.known[l.session].owner == 0 {
		c.setOwner(l, c.successor(l)) // a look answered meanwhile had still shown it as ours
	}
	switch {
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

// abandon ends a term whose work is stuck. The key is left to expire: the work may still be going on.
func (c *Core) abandon(id string) {
	l, ok := c.leases[id]
	if !ok || l.phase != owned {
		return
	}
	l.stuck = true
	c.lost(l, CauseStuck, "")
}

func (c *Core) recovered(id string) {
	l, ok := c.leases[id]
	if !ok || !l.stuck {
		return
	}
	l.stuck = false
	if l.phase == idle {
		c.forget(l)
		c.discover(discoverRecovered)
	}
}
