package core

// advance moves time, and makes every term uncertain when the clocks stepped.
func (c *Core) advance(now Now) {
	step := c.terms.advance(now)
	if step == 0 {
		return
	}
	c.tell(Tell{Kind: TellClock, Cause: CauseClock, Wait: step})
	for _, l := range c.held {
		if c.shift(&l.term, step) {
			c.armLease(l, max(l.until, c.now.Mono))
		}
		c.doubt(l, CauseClock, "")
		c.requestRenew(l)
	}
}

// distrusted returns what is left of an answer: one that is not believed says nothing.
func (c *Core) distrusted(in *inflight, a *Answer) *Answer {
	if a.Failure != FailNone {
		return a
	}
	cause, text := c.distrust(a)
	if cause == CauseNone {
		return a
	}
	said, told := c.reject(&in.op, a, text)
	if told {
		c.tell(Tell{Kind: TellRejected, Cause: cause, Text: a.Epoch, Wait: a.Group})
	}
	return &said
}

// learn takes from an answer what it says of Redis itself. After a loss of data terms whose windows are open are asserted again, a
// round trip later; everything else is looked up.
func (c *Core) learn(in *inflight, a *Answer) {
	if jump := c.watchRedisClock(&in.op, a); jump != 0 {
		c.tell(Tell{Kind: TellClock, Cause: CauseFailed, Wait: jump, Text: "redis"})
	}
	before, quarantined := c.epoch.value, c.epoch.quarantine > c.now.Mono
	news := c.terms.learn(&in.op, a)
	if news == epochSame {
		return
	}
	c.tell(Tell{Kind: TellEpoch, Cause: follows(before, a.Epoch), Text: a.Epoch, Wait: a.Quarantine})
	if c.epoch.outside {
		c.tell(Tell{Kind: TellOutside, Cause: CauseGroup, Wait: a.Group})
	}
	if news == epochFirst {
		return
	}
	if c.epoch.acks > 0 { // each attachment of a replica ends an epoch: what failed before it is no reason to wait
		c.paces[OpReassert] = pace{}
	}
	for _, l := range c.held {
		if l.yielding && l.cause == CauseRebalance && !c.draining {
			c.keep(l, CauseForgot) // what is given up in a quarantine nobody can take; who stops keeps nothing
		}
		c.forgot(&l.term)
		c.doubt(l, CauseForgot, a.Epoch)
		c.requestRenew(l)
	}
	if quarantined && c.epoch.quarantine == 0 {
		c.observeWanted() // it was declared new: who waits had the end of that quarantine as its time
	}
	c.registry.own.beat = !c.cfg.NoHeartbeat
	c.fleet.discover(discoverEpoch)
}

// supersede sends for a new epoch in place of the one that was rejected.
func (c *Core) supersede() {
	if c.epoch.rejected == "" || c.paced(OpSupersede) || c.ops.any(OpSupersede) {
		return
	}
	c.send(OpSupersede, nil, nil)
	c.epoch.rejected = ""
}

// Disbelieved returns the epoch that the server speaks for and that is not believed, "" once what was sent later is believed.
func (c *Core) Disbelieved() string {
	if e := &c.epoch; e.disbelieved.sent > e.sent {
		return e.disbelieved.epoch
	}
	return ""
}

// Blocked returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) Blocked() (Time, Cause) {
	until, cause := c.blocked()
	if cause == CauseNone && c.paced(OpAcquire) {
		return c.paces[OpAcquire].until, CauseFailed
	}
	return until, cause
}

// askIdle has the epoch read by an instance without a heartbeat that neither holds nor watches a lease, or may not acquire one
// yet: it sends nothing else, and would learn of a loss of data, or that Redis' clock has jumped, only when it wants something,
// and then be blocked for a TTL from there on (G9, I3, I5). One read a renewal interval, however many leases wait.
func (c *Core) askIdle() {
	if !c.cfg.NoHeartbeat || len(c.held) > 0 || c.silence.on || c.draining {
		return
	}
	if until, _ := c.Blocked(); until != 0 || len(c.leases) == 0 {
		c.queue.probe = true
	}
}
