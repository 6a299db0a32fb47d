package core

import (
	"github.com/leasestorm/leasestorm/internal/place"
)

func (c *Core) lookAnswered(in *inflight, a *Answer) {
	f := c.table
	if !f.LookEnded(in.op.Seq) || a.Look == nil || c.own.Leaving() || c.own.Rejoin() != 0 || c.k.Outside() {
		return
	}
	changed := c.members.See(&in.op, a.Look.Nodes)
	if c.cfg.Place {
		changed = f.See(in.op.Seq, a.Look, c.stands) || changed
	}
	blocked, _ := c.Blocked()
	f.Seen(changed, blocked)
	if c.cfg.Place {
		c.askRedis()
		c.answerAsks(in.op.Seq)
		c.takeFree()
		c.ask(f.Wanted())
		c.dropUnwanted()
	}
	c.members.Prune(f.Owns())
}

// askRedis renews the held leases that a discovery showed as not this instance's, to find out whether they are.
func (c *Core) askRedis() {
	for _, i := range c.table.Denied() {
		if l := c.entry(i); l.Op() == 0 {
			c.requestRenew(l)
		}
	}
}

func (c *Core) ask(asks [][]Item) {
	for _, items := range asks {
		c.req.send(OpAsk, items, nil)
	}
}

// answerAsks yields leases above this instance's quota that others requested.
func (c *Core) answerAsks(look uint64) {
	f := c.table
	if !f.Asked() {
		return
	}
	if c.k.InQuarantine() {
		f.Forget() // in a quarantine nobody could acquire a released lease
		return
	}
	held := 0
	for _, l := range c.held {
		if l.place && !l.yielding && l.session != place.Nobody {
			held++
		}
	}
	if excess, ok := f.Excess(held); ok {
		f.Decide(look, func(from string, ids []string) bool { return c.give(from, ids, &excess) })
	}
}

// give yields the requested leases within excess, and reports whether excess did not suffice.
func (c *Core) give(from string, ids []string, excess *int) (lacking bool) {
	for _, id := range ids {
		l := c.leases[id]
		if l == nil || l.Phase() != owned || l.yielding || l.want && !l.place {
			continue
		}
		if *excess <= 0 {
			return true
		}
		*excess--
		c.yield(l, from, CauseRebalance)
	}
	return false
}

// takeFree handles the sessions without a living owner. It acquires free ones and reads those whose owner has no heartbeat. While
// acquisitions are blocked, it does neither: after a loss of data no heartbeat lives and every session is free, so each instance of a
// large fleet would watch all of them. fleet.wanted plans a discovery for later.
func (c *Core) takeFree() {
	anyFree := false
	for _, i := range c.table.Unowned() {
		anyFree = c.takeUp(i) || anyFree
	}
	c.ask(c.table.Formers())
	c.table.Leaves(anyFree)
}

// takeUp handles session i, which has no living owner, and reports whether it is free and may come to this instance.
func (c *Core) takeUp(i int32) (free bool) {
	f := c.table
	o, l := f.Owner(i), c.entry(i)
	switch {
	case l != nil && c.decided(l, o):
		return o == place.Nobody && len(l.stuck) == 0
	case o == 0: // ours in Redis without a term here: an attempt was not answered
		c.tryAcquire(c.placed(i))
	case o != place.Nobody:
		if f.Blocked() == 0 {
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
	now, turn := c.table.Found(i)
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
		case l.session != place.Nobody || c.k.InQuarantine():
			l.will(nextNothing)
		case l.next != nextYield:
			l.will(nextYield)
			c.table.Discover(place.DiscoverMissing)
		default:
			c.yield(l, "", CauseUnwanted)
		}
	}
}

// PreferredOwner returns the instance that should own id: its target, or its owner if that keeps it. For an unknown session, it is the
// live instance that ranks the session highest; "" if no instance is live.
func (c *Core) PreferredOwner(id string) string { return c.table.PreferredOwner(id) }

// LiveNodes returns the IDs of the instances that count, in ascending order. This one is included unless it is draining or withdrawn.
func (c *Core) LiveNodes() []string { return c.table.Live() }

// Settled reports whether this instance sees no session left to move: every session has a live owner, and none has another target.
func (c *Core) Settled() bool {
	if !c.own.Started() || c.own.Leaving() || c.silence.on || c.cfg.Place && !c.members.Looked() {
		return false
	}
	return c.table.Balanced()
}
