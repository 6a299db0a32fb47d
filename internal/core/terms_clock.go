package core

// clockState watches the clocks that trust rests on.
type clockState struct {
	known    bool
	offset   int64 // wall − mono as of the last event
	redis    bool
	lo, hi   int64  // Redis' clock − mono lies between
	at       Time   // when lo and hi were last narrowed
	acquires Time   // nothing is acquired before, because Redis' clock jumped
	stepped  uint64 // ops up to this one were stamped before the own clocks stepped
}

// advance moves time. It returns how far the wall clock stepped against the monotonic one, 0 if by no more than the margin. Either the
// machine slept, and the monotonic clock may have stopped while Redis' did not, or somebody set the wall clock. The stamps of ops under
// way may come from a stopped clock, so those ops begin no term (I7).
func (k *terms) advance(now Now) (step int64) {
	if now.Mono < k.now.Mono {
		now = k.now
	}
	c := &k.clock
	offset := now.Wall - int64(now.Mono)
	k.now = now
	if step = offset - c.offset; !c.known || step <= k.margin && step >= -k.margin {
		step = 0
	} else {
		c.redis = false
		c.stepped = k.seq
	}
	c.known, c.offset = true, offset
	return step
}

// shift applies a step of the own clocks to t: if the wall clock went ahead, the window ends as much earlier. Redis would refuse to
// renew a lease that another owner holds by now, but not to reassert it after a loss of data. It reports whether the window is shorter.
func (k *terms) shift(t *term, step int64) (shorter bool) {
	t.op = 0
	if step > 0 {
		t.until -= Time(step)
	}
	return step > 0
}

func (k *terms) wall(t Time) int64 { return int64(t) + k.clock.offset }

// watchRedisClock compares Redis' clock with the instance's own. Leases expire by Redis' clock: when it jumps forward by
// more than the margin, keys may have expired inside windows that are still open, so nothing is acquired for one TTL (I7). It
// returns the jump, 0 for none.
func (k *terms) watchRedisClock(op *Op, a *Answer) (jump int64) {
	if a.RedisNow == 0 {
		return 0
	}
	s := &k.clock
	redis := a.RedisNow * 1000
	lo, hi := redis-int64(k.now.Mono), redis+1000-int64(op.Sent)
	if op.Seq <= s.stepped {
		return 0
	}
	if !s.redis {
		s.redis, s.lo, s.hi, s.at = true, lo, hi, k.now.Mono
		return 0
	}
	drift := int64(k.now.Mono-s.at) / 1_000_000 * k.cfg.MarginPPM
	s.lo, s.hi, s.at = s.lo-drift, s.hi+drift, k.now.Mono
	switch {
	case lo > s.hi+k.margin:
		s.acquires = k.now.Mono + Time(k.cfg.TTL)
		jump = lo - s.hi
		s.lo, s.hi = lo, hi
	case lo > s.hi || hi < s.lo:
		s.lo, s.hi = lo, hi
	default:
		s.lo, s.hi = max(s.lo, lo), min(s.hi, hi)
	}
	return jump
}
