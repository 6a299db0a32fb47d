package term

// Advance moves time. It returns how far the wall clock stepped against the monotonic one, 0 if by no more than the margin. Either the
// machine slept, and the monotonic clock may have stopped while Redis' did not, or somebody set the wall clock. The stamps of ops under
// way may come from a stopped clock, so those ops begin no term (I7).
func (k *Kernel) Advance(now Now) (step int64) {
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

// Shift applies a step of the own clocks to t: if the wall clock went ahead by d, the window ends d earlier. Redis would refuse to
// renew a lease that another owner holds by now, but after a loss of data it would not refuse to reassert that lease. Shift reports
// whether the window is shorter.
func (k *Kernel) Shift(t *Term, step int64) (shorter bool) {
	t.op = 0
	if step > 0 {
		t.until -= Time(step)
	}
	return step > 0
}
