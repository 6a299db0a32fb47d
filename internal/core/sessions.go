package core

import "slices"

func (c *Core) lookAnswered(in *inflight, a *Answer) {
	f := &c.fleet
	if !f.lookEnded(in.op.Seq) || a.Look == nil || c.draining || c.registry.own.rejoin != 0 || c.k.Outside() {
		return
	}
	changed := c.registry.see(&in.op, a.Look.Nodes)
	if c.cfg.Place {
		changed = f.see(in.op.Seq, a.Look, c.stands) || changed
	}
	blocked, _ := c.Blocked()
	f.seen(changed, blocked)
	if c.cfg.Place {
		c.askRedis()
		c.answerAsks(in.op.Seq)
		c.takeFree()
		c.ask(f.wanted())
		c.dropUnwanted()
	}
	f.placement()
	c.registry.prune(f.owned)
}

// askRedis renews the held leases that a discovery showed as not this instance's, to find out whether they are.
func (c *Core) askRedis() {
	for _, i := range c.fleet.denied {
		if l := c.entry(i); l.Op() == 0 {
			c.requestRenew(l)
		}
	}
}

func (c *Core) ask(asks [][]Item) {
	for _, items := range asks {
		c.send(OpAsk, items, nil)
	}
}

// answerAsks yields leases above this instance's quota that others requested.
func (c *Core) answerAsks(look uint64) {
	f := &c.fleet
	if len(f.asks) == 0 {
		return
	}
	if c.k.InQuarantine() {
		f.forgetAsks() // in a quarantine nobody could acquire a released lease
		return
	}
	held := 0
	for _, l := range c.held {
		if l.place && !l.yielding && l.session != nobody {
			held++
		}
	}
	if excess, ok := f.excess(held); ok {
		f.decide(look, func(a *ask) bool { return c.give(a, &excess) })
	}
}

// give yields the requested leases within excess, and reports whether excess did not suffice.
func (c *Core) give(a *ask, excess *int) (lacking bool) {
	for _, id := range a.ids {
		l := c.leases[id]
		if l == nil || l.Phase() != owned || l.yielding || l.want && !l.place {
			continue
		}
		if *excess <= 0 {
			return true
		}
		*excess--
		c.yield(l, a.from, CauseRebalance)
	}
	return false
}

// takeFree handles the sessions without a living owner. It acquires free ones and reads those whose owner has no heartbeat. While
// acquisitions are blocked, it does neither: after a loss of data no heartbeat lives and every session is free, so each instance of a
// large fleet would watch all of them. fleet.wanted plans a discovery for later.
func (c *Core) takeFree() {
	anyFree := false
	for _, i := range c.fleet.unowned() {
		anyFree = c.takeUp(i) || anyFree
	}
	c.ask(c.fleet.formers())
	c.fleet.leaves(anyFree)
}

// takeUp handles session i, which has no living owner, and reports whether it is free and may come to this instance.
func (c *Core) takeUp(i int32) (free bool) {
	f := &c.fleet
	o, l := f.known[i].owner, c.entry(i)
	switch {
	case l != nil && c.decided(l, o):
		return o == nobody && len(l.stuck) == 0
	case o == 0: // ours in Redis without a term here: an attempt was not answered
		c.tryAcquire(c.placed(i))
	case o != nobody:
		if f.blocked == 0 {
			c.observe(c.placed(i))
		}
	default:
		c.takeFound(i)
		return true
	}
	return false
}

// decided reports whether l, of owner o, needs no action of takeUp: it is held, stuck, under way, or waited for already.
func (c *Core) decided(l *lease, o int32) bool {
	return l.Phase() != idle || len(l.stuck) > 0 || l.place && o != 0 && (o > 0 || !c.givenBack(l))
}

// givenBack reports whether l, found free, had an owner that must have released it before its expiry. The key of another program has no
// owner's name: it is tried once a TTL only.
func (c *Core) givenBack(l *lease) bool { return l.holder != "" && l.exp > c.k.Now() }

func (c *Core) takeFound(i int32) {
	now, turn := c.fleet.found(i)
	if !now && !turn {
		return
	}
	l := c.placed(i)
	l.exp = c.k.Now()
	if now {
		c.tryAcquire(l)
	} else {
		c.awaitExpiry(l)
	}
}

// dropUnwanted ends the work of placed leases whose session was gone or paused in two discoveries in a row. In a quarantine it does
// nothing: lost sessions may be restored, and a released lease could not be acquired again before its end.
func (c *Core) dropUnwanted() {
	for _, l := range c.held {
		switch {
		case !l.place || l.want || l.yielding:
		case l.session != nobody || c.k.InQuarantine():
			l.will(nextNothing)
		case l.next != nextYield:
			l.will(nextYield)
			c.fleet.discover(discoverMissing)
		default:
			c.yield(l, "", CauseUnwanted)
		}
	}
}

// PreferredOwner returns the instance that should own id: its target, or its owner if that keeps it. For an unknown session, it is the
// live instance that ranks the session highest; "" if no instance is live.
func (c *Core) PreferredOwner(id string) string {
	f := &c.fleet
	f.placement()
	if i := f.sessions.find(id); i >= 0 && c.cfg.Place {
		if t := f.placedOn(i); t != nobody {
			return f.r.nodes[t].id
		}
		if o := f.known[i].owner; o != nobody {
			return f.r.nodes[o].id
		}
	}
	best, owner, h := uint64(0), "", hashID(id)
	for _, i := range f.live {
		if r := rank(f.r.nodes[i].hash, h); owner == "" || r > best {
			best, owner = r, f.r.nodes[i].id
		}
	}
	return owner
}

// LiveNodes returns the IDs of the instances that count, in ascending order. This one is included unless it is draining or withdrawn.
func (c *Core) LiveNodes() []string {
	c.fleet.placement()
	ids := make([]string, 0, len(c.fleet.live))
	for _, i := range c.fleet.live {
		ids = append(ids, c.registry.nodes[i].id)
	}
	return ids
}

// Settled reports whether this instance sees no session left to move: every session has a live owner, and none has another target.
func (c *Core) Settled() bool {
	if !c.started || c.draining || c.silence.on || c.cfg.Place && c.registry.looks == 0 {
		return false
	}
	c.fleet.placeTurn()
	return !c.fleet.outdated() && !slices.ContainsFunc(c.fleet.target, func(t int32) bool { return t != nobody })
}
