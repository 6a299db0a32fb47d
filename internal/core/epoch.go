package core

// epochState is what the instance knows of the life of Redis' data (DESIGN 6).
type epochState struct {
	value      string // poll:epoch as last told, "" before the first answer
	sent       Time   // stamp of the op that told it: an older op cannot bring an older epoch back
	quarantine Time   // until then nothing is granted; an upper bound
	fence      int64  // the highest fence ever seen: every acquire carries it
}

// clockState watches the clocks that trust rests on.
type clockState struct {
	known    bool
	offset   int64 // wall − mono as of the last event
	redis    bool
	lo, hi   int64  // Redis' clock − mono lies between
	at       Time   // when lo and hi were last narrowed
	acquires Time   // nothing is acquired before: Redis' clock jumped
	stepped  uint64 // ops up to this one were stamped before the own clocks stepped
}

// advance moves time. A wall clock that steps against the monotonic one by more than the margin, either way, makes every
// term uncertain: the machine slept (then the monotonic clock may have stood still while Redis' did not) or somebody set
// the clock (then the wall reading says nothing).
func (c *Core) advance(now Now) {
	if now.Mono < c.now.Mono {
		now = c.now
	}
	k := &c.clock
	offset := now.Wall - int64(now.Mono)
	step := offset - k.offset
	c.now = now
	if k.known && (step > c.margin || step < -c.margin) {
		k.redis = false
		c.tell(Tell{Kind: TellClock, Cause: CauseClock, Wait: step})
		c.voidAttempts()
		for _, l := range c.held {
			if step > 0 {
				// The window has run out by the wall clock as much earlier. A renewal of a closed window would be refused
				// by Redis if another holds it; an assertion after a loss would not be.
				l.until -= Time(step)
				c.armLease(l, max(l.until, c.now.Mono))
			}
			c.doubt(l, CauseClock, "")
			c.requestRenew(l)
		}
	}
	k.known, k.offset = true, offset
}

// voidAttempts makes the stamps of what is under way worthless: they may have been read from a clock that stood still.
func (c *Core) voidAttempts() {
	for _, l := range c.held {
		l.op = 0
	}
	c.clock.stepped = c.seq
}

// learn takes from an answer what it says of Redis itself.
func (c *Core) learn(in *inflight, a *Answer) {
	c.watchRedisClock(in, a)
	e := &c.epoch
	if a.Epoch == "" || in.op.Sent < e.sent {
		return
	}
	if a.Quarantine > 0 {
		end := c.now.Mono + Time(a.Quarantine)
		if a.Epoch != e.value || end < e.quarantine {
			e.quarantine = end
		}
	} else {
		e.quarantine = 0
	}
	e.sent = in.op.Sent
	if a.Epoch == e.value {
		return
	}
	first := e.value == ""
	e.value = a.Epoch
	c.tell(Tell{Kind: TellEpoch, Text: a.Epoch, Wait: a.Quarantine})
	if first {
		return
	}
	// Redis lost data, or may have. Terms whose windows are open are asserted again, and nothing begins under them before
	// that is confirmed, a round trip later; everything else is looked up.
	c.clock.redis = false
	for _, l := range c.held {
		if l.yielding && l.cause == CauseRebalance {
			c.keep(l, CauseForgot) // what is given up in a quarantine nobody can take
		}
		l.reassert = true
		l.op = 0
		c.doubt(l, CauseForgot, a.Epoch)
		c.requestRenew(l)
	}
	c.queue.beat = !c.cfg.NoHeartbeat
	c.lookSoon(0)
}

// watchRedisClock compares Redis' clock with the instance's own. Leases expire by Redis' clock: when it jumps forward by
// more than the margin, keys may have expired inside windows that are still open, so nothing is acquired for one TTL.
func (c *Core) watchRedisClock(in *inflight, a *Answer) {
	if a.RedisNow == 0 {
		return
	}
	k := &c.clock
	redis := a.RedisNow * 1000
	lo, hi := redis-int64(c.now.Mono), redis+1000-int64(in.op.Sent)
	if in.op.Seq <= k.stepped {
		return
	}
	if !k.redis {
		k.redis, k.lo, k.hi, k.at = true, lo, hi, c.now.Mono
		return
	}
	drift := int64(c.now.Mono-k.at) / 1_000_000 * c.cfg.MarginPPM
	k.lo, k.hi, k.at = k.lo-drift, k.hi+drift, c.now.Mono
	switch {
	case lo > k.hi+c.margin:
		k.acquires = c.now.Mono + Time(c.cfg.TTL)
		c.tell(Tell{Kind: TellClock, Cause: CauseFailed, Wait: lo - k.hi, Text: "redis"})
		k.lo, k.hi = lo, hi
	case lo > k.hi || hi < k.lo:
		k.lo, k.hi = lo, hi
	default:
		k.lo, k.hi = max(k.lo, lo), min(k.hi, hi)
	}
}

// barred returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) barred() (Time, Cause) {
	if c.epoch.quarantine > c.now.Mono {
		return c.epoch.quarantine, CauseQuarantine
	}
	if c.clock.acquires > c.now.Mono {
		return c.clock.acquires, CauseClock
	}
	if c.paced(OpAcquire) {
		return c.paces[OpAcquire].until, CauseFailed
	}
	return 0, CauseNone
}

// askIdle has the epoch read by an instance without a heartbeat that neither holds nor watches a lease, or may not acquire one
// yet: it sends nothing else, and would learn of a loss of data, or that Redis' clock has jumped, only when it wants something,
// and then be barred for a TTL from there on (G9, I3, I5). One read a renewal interval, however many leases wait.
func (c *Core) askIdle() {
	if !c.cfg.NoHeartbeat || len(c.held) > 0 || c.silence.on || c.draining {
		return
	}
	if until, _ := c.barred(); until != 0 || len(c.leases) == 0 {
		c.queue.probe = true
	}
}
