package core

// advance moves time. If the clocks stepped, it shortens and doubts every term.
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

// distrusted returns a if it is believed, and otherwise a failed answer.
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

// learn updates Redis' clock and epoch from an answer. After a loss of data it doubts all held terms, reasserts them (or renews them, if
// the quarantine is over) and starts a discovery.
func (c *Core) learn(in *inflight, a *Answer) {
	if jump := c.watchRedisClock(&in.op, a); jump != 0 {
		c.tell(Tell{Kind: TellClock, Cause: CauseFailed, Wait: jump, Text: "redis"})
	}
	before, quarantined := c.epoch.value, c.epoch.quarantine > c.now.Mono
	news := c.terms.learn(&in.op, a)
	if news == epochSame {
		return
	}
	c.tell(Tell{Kind: TellEpoch, Cause: follows(before, a), Text: a.Epoch, Wait: a.Quarantine})
	if c.epoch.outside {
		c.tell(Tell{Kind: TellOutside, Cause: CauseGroup, Wait: a.Group})
	}
	if news == epochFirst {
		return
	}
	if c.epoch.acks > 0 { // each attachment of a replica ends an epoch, so earlier failures are no reason to wait
		c.paces[OpReassert] = pace{}
	}
	for _, l := range c.held {
		if l.yielding && l.cause == CauseRebalance && !c.draining {
			c.keep(l, CauseForgot) // in a quarantine nobody could acquire it; a draining instance keeps nothing
		}
		c.forgot(&l.term)
		c.doubt(l, CauseForgot, a.Epoch)
		c.requestRenew(l)
	}
	if quarantined && c.epoch.quarantine == 0 {
		c.observeWanted() // the quarantine ended early, and waiters wait for its planned end
	}
	c.registry.own.beat = !c.cfg.NoHeartbeat
	c.fleet.discover(discoverEpoch)
}

func (c *Core) supersede() {
	if c.epoch.rejected == "" || c.paced(OpSupersede) || c.ops.any(OpSupersede) {
		return
	}
	c.send(OpSupersede, nil, nil)
	c.epoch.rejected = ""
}

// Disbelieved returns the epoch of the server if it is not believed, "" once the answer to a later op is believed.
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

// askIdle reads the epoch once a renewal interval, if an instance without a heartbeat holds no lease and either wants none or may not
// acquire yet. Such an instance sends no other requests. Without this read it would notice a loss of data, or a jump of Redis' clock, only
// when it wants a lease. It would then be blocked for a TTL from that moment on (G9, I3, I5).
func (c *Core) askIdle() {
	if !c.cfg.NoHeartbeat || len(c.held) > 0 || c.silence.on || c.draining {
		return
	}
	if until, _ := c.Blocked(); until != 0 || len(c.leases) == 0 {
		c.queue.probe = true
	}
}
