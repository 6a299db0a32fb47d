package core

import "slices"

// beat sets the heartbeat once the renewals under way are answered, so that it expires no later than any held lease. The others watch
// it in place of the leases, so it must not outlive them (G5).
func (c *Core) beat() {
	own := &c.registry.own
	if !own.beat || c.paced(OpBeat) || c.ops.any(OpRenew, OpReassert) {
		return
	}
	own.beat = false
	if own.leaving || own.rejoin != 0 || c.k.Outside() {
		return
	}
	ttl := c.cfg.TTL
	for _, l := range c.held {
		if l.Until() > c.k.Now() {
			ttl = min(ttl, int64(l.Until()-c.k.Now())+c.cfg.Margin())
		}
	}
	c.send(OpBeat, nil, nil)
	op := &c.eff.Ops[len(c.eff.Ops)-1]
	op.TTL = ttl / Millisecond * Millisecond
	own.sent(op.Deadline + Time(ttl))
}

func (c *Core) readHeartbeats() {
	if len(c.registry.unread) == 0 || c.paced(OpNodes) {
		return
	}
	for items := range slices.Chunk(c.registry.reads(), c.cfg.Batch) {
		c.send(OpNodes, items, nil)
	}
}

func (c *Core) nodesAnswered(in *inflight, a *Answer) {
	for k, it := range in.op.Items {
		switch i, said := c.registry.read(&in.op, it.ID, a.result(k)); said {
		case heartbeatOverdue:
			c.watch(i)
		case heartbeatGone:
			c.watch(i)
			c.fleet.discover(discoverGone)
		}
	}
}

// watch reads the leases of instance o, which seems dead, to acquire them when they expire. Free sessions may have been left to o as
// their target, so a discovery follows. watch does nothing while acquisitions are blocked, for the same reason as takeFree.
func (c *Core) watch(o int32) {
	if until, _ := c.Blocked(); !c.cfg.Place || until != 0 {
		return
	}
	if c.fleet.anyFree {
		c.fleet.discover(discoverGoneHeir)
	}
	for i := range c.fleet.known {
		if c.fleet.known[i].owner != o {
			continue
		}
		l := c.lease(c.fleet.sessions.IDs[i])
		if l.Phase() == idle && len(l.stuck) == 0 && !l.place {
			l.place = true
			c.observe(l)
		}
	}
}

func (c *Core) beatAnswered(a *Answer) {
	own := &c.registry.own
	own.written = !a.Stale
	own.beat = own.beat || a.Stale
	own.beatEnded()
}

func (c *Core) acquisitionsFail(in *inflight) {
	if pause := c.registry.acquisitionFailed(in.op.Sent); pause > 0 {
		c.tell(Tell{Kind: TellWithdrawn, Wait: pause})
	}
}
