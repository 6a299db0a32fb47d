package core

// epochState is what the instance knows of the life of Redis' data (G9).
type epochState struct {
	value      string // poll:epoch as last told, "" before the first answer
	sent       Time   // stamp of the op that told it: an older op cannot bring an older epoch back
	quarantine Time   // until then nothing is granted; an upper bound
	fence      int64  // the highest fence ever seen: every acquire carries it

	group    int64               // ns: the quarantine that the epoch's group has agreed on
	outside  bool                // which is too short for this instance: it has no part in what the others do
	past     map[string]struct{} // epochs that were seen superseded; never ranged over
	rejected string              // an epoch that a server is to end
}

// Why an answer is not believed.
const (
	textSuperseded = "this Redis is one that was superseded: it is asked to begin a new epoch"
	textUnderrated = "an instance with a shorter TTL began this epoch: another is asked for"
)

// distrust returns why an answer in a's epoch is worth nothing, "" if it is worth what it says.
//
// An epoch that was seen superseded is that of an old master, or of old data: what was granted elsewhere meanwhile it does not
// know. And after a loss of data an epoch may be begun by who has never heard of this group: its quarantine is as long as that
// one's TTL, and not as long as the group's leases are believed in.
func (c *Core) distrust(a *Answer) (cause Cause, text string) {
	e := &c.epoch
	if _, past := e.past[a.Epoch]; past {
		return CauseSuperseded, textSuperseded
	}
	if a.Epoch != e.value && c.tooShort(a.Group) && e.value != "" && !e.outside {
		return CauseGroup, textUnderrated
	}
	return CauseNone, ""
}

// tooShort reports whether a group that has agreed on this quarantine is none for this instance. One that has agreed on more than
// it needs is: so a fleet gets another TTL (docs/guarantees.md, G9).
func (c *Core) tooShort(group int64) bool {
	return group > 0 && group < max(c.cfg.TTL, c.cfg.Quarantine)
}

// quarantine is how long one has to last that this instance begins: as long as any of its group may believe in a lease.
func (c *Core) quarantine() int64 {
	if c.epoch.outside {
		return c.epoch.group
	}
	return max(c.cfg.TTL, c.cfg.Quarantine, c.epoch.group)
}

// reject makes of an answer that is not believed one that says nothing, and has the server begin another epoch if it was asked
// after the present one was heard of. What the op did there it may have done.
func (c *Core) reject(in *inflight, a *Answer, cause Cause, text string) Answer {
	e := &c.epoch
	if in.op.Sent > e.sent && e.rejected != a.Epoch {
		e.rejected = a.Epoch
		c.tell(Tell{Kind: TellRejected, Cause: cause, Text: a.Epoch, Wait: a.Group})
	}
	failure := FailRefused
	if in.op.Epoch == a.Epoch {
		failure = FailUnknown
	}
	return Answer{Seq: a.Seq, Failure: failure, Text: text, Epoch: a.Epoch}
}

// supersede sends for a new epoch in place of the one that was rejected.
func (c *Core) supersede() {
	if c.epoch.rejected == "" || c.paced(OpSupersede) || c.ops.any(OpSupersede) {
		return
	}
	c.send(OpSupersede, nil, nil)
	c.epoch.rejected = ""
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
		// Of several answers the earliest end is nearest. One that has come and was not the end was told by a clock that runs slower,
		// unless this answer is so old that what it says is over.
		if over := e.quarantine <= c.now.Mono && in.op.Sent+Time(a.Quarantine) > c.now.Mono; a.Epoch != e.value || end < e.quarantine || over {
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
	if !first {
		if e.past == nil {
			e.past = map[string]struct{}{}
		}
		e.past[e.value] = struct{}{}
	}
	e.value = a.Epoch
	e.outside, e.group = c.tooShort(a.Group), a.Group
	c.tell(Tell{Kind: TellEpoch, Text: a.Epoch, Wait: a.Quarantine})
	if e.outside {
		c.tell(Tell{Kind: TellOutside, Cause: CauseGroup, Wait: a.Group})
	}
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
	c.discover(discoverEpoch)
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

// Blocked returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) Blocked() (Time, Cause) {
	if c.epoch.outside {
		return c.now.Mono + Time(c.cfg.TTL), CauseGroup
	}
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
// and then be blocked for a TTL from there on (G9, I3, I5). One read a renewal interval, however many leases wait.
func (c *Core) askIdle() {
	if !c.cfg.NoHeartbeat || len(c.held) > 0 || c.silence.on || c.draining {
		return
	}
	if until, _ := c.Blocked(); until != 0 || len(c.leases) == 0 {
		c.queue.probe = true
	}
}
