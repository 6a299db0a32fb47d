package core

// A session that was released to another instance is promised until that is heard to have taken it. Mostly it is, a moment
// later, and each instance of the fleet hears of each session that moves: so there is no entry of a lease for a promise, only
// a timer and a number. An entry that place is set in, and nothing else, would behave alike.

// promise waits for another instance to take session i, until at. kind is timerHeir, or timerTurn where the heir was given
// its moment already.
func (c *Core) promise(i int32, kind timerKind, at Time) {
	f := &c.fleet
	f.promises++
	f.known[i].promised = f.promises
	c.timers.push(timer{at: at, kind: kind, gen: f.promises, n: uint64(i)})
}

// isPromised reports whether session i is promised.
func (f *fleet) isPromised(i int32) bool { return i >= 0 && f.known[i].promised != 0 }

// wakePromise: session i was not taken in time. After the heir's moment the others come in order.
func (c *Core) wakePromise(t *timer) {
	i := int32(t.n)
	if t.kind == timerHeir && !c.silence.on {
		c.promise(i, timerTurn, c.now.Mono+Time(max(c.turn(i), c.cfg.Stagger)))
		return
	}
	c.wakeLease(c.enter(t), t.at)
}

// enter makes an entry of the promise that t is the timer of.
func (c *Core) enter(t *timer) *lease {
	f := &c.fleet
	f.known[t.n].promised = 0
	l := c.lease(f.sessions.IDs[t.n])
	l.place, l.ordered = true, t.kind == timerHeir
	return l
}

// enterAll makes entries of all promises, or of session only's if that is not nobody. Their timers become the entries'.
func (c *Core) enterAll(only int32) {
	for k := range c.timers.a {
		t := &c.timers.a[k]
		if t.kind != timerHeir && t.kind != timerTurn || only != nobody && t.n != uint64(only) || !c.live(t) {
			continue
		}
		l := c.enter(t)
		*t = timer{at: t.at, kind: timerLease, gen: l.gen, l: l}
	}
}
