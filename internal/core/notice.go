package core

import "slices"

// notice takes what another instance said to all. Notices only save time: each names something that a look would show.
func (c *Core) notice(n *Notice) {
	if n.From == c.self || !c.started || c.draining {
		return
	}
	switch n.Kind {
	case NoticeJoined: // what is placed on it, or given to it, waits for a look that shows its heartbeat: anybody may say so
		c.fleet.discover(discoverJoined)
	case NoticeLeft:
		if c.registry.left(n.From) {
			c.fleet.discover(discoverLeft)
		}
	case NoticeTaken:
		for _, id := range n.IDs {
			c.taken(id, c.fleet.sessions.find(id), n.From)
		}
	case NoticeFreed:
		for k, id := range n.IDs {
			c.freed(id, c.fleet.sessions.find(id), n.From, n.heir(k))
		}
	case NoticeAsked:
		if len(n.Peers) > 0 && n.Peers[0] == c.self && c.cfg.Place && c.mayHave(n.IDs) {
			c.fleet.hear(n)
			c.fleet.discover(discoverAsked)
		}
	}
}

// mayHave reports whether something of what another asks for may be this instance's. Where acknowledgements count, Redis names it as the
// owner of what it was granted and too few replicas have: at a master without a majority that is everything, the others ask for it at
// each of their looks, and one here for each asking would be in vain (G14, seed 12046).
func (c *Core) mayHave(ids []string) bool {
	return c.epoch.acks == 0 || slices.ContainsFunc(ids, func(id string) bool { l := c.leases[id]; return l != nil && l.phase == owned })
}

// heir is who shall take the k-th of the leases that were released.
func (n *Notice) heir(k int) heir {
	if k < len(n.Peers) {
		return heirNamed(n.Peers[k], n.From)
	}
	return heir{}
}

// taken acts on an acquisition of id, which is session i.
func (c *Core) taken(id string, i int32, owner string) {
	l := c.entryOf(id, i)
	if l != nil && l.phase == owned {
		return // Redis decides, not hearsay: the next renewal tells
	}
	if l == nil && c.cfg.Place && i < 0 {
		c.fleet.discover(discoverUnknown)
		return
	}
	if !c.fleet.said(i, c.fleet.shown(owner)) || l == nil || l.phase != idle || len(l.stuck) > 0 {
		return
	}
	l.holder = owner
	l.vacant(Vacancy{})
	switch {
	case l.place && !l.want && c.registry.fresh(owner):
		c.forget(l)
	case l.want || l.place:
		l.will(nextRead) // a hint puts no wait off: the lease is read when that ends
	}
}

// freed acts on a release of id, which is session i, by from: the heir, or without one the target, acquires at once; whoever waits for
// this very lease does too; the others of the fleet give the heir a moment and then come in order.
func (c *Core) freed(id string, i int32, from string, to heir) {
	l := c.entryOf(id, i)
	if l != nil && (l.phase != idle || len(l.stuck) > 0) {
		if l.phase == acquiring {
			c.givenBackBy(l, from)
			l.will(nextAgain) // the answer under way may be older than the release
		}
		return
	}
	if l != nil && l.want {
		l.holder = ""
		c.givenBackBy(l, from)
		c.retry(l)
		return
	}
	if i < 0 {
		c.fleet.discover(discoverUnknown)
		return
	}
	if to.none {
		c.fleet.said(i, "") // its session went or was paused, which this instance has yet to see
		c.fleet.discover(discoverToNobody)
		return
	}
	c.leftTo(i, l, from, to)
}

// leftTo is freed for session i that placement minds, whose entry is l, nil without one: to whom it is left is as good as its owner, and
// what follows is placed around that.
func (c *Core) leftTo(i int32, l *lease, from string, to heir) {
	c.fleet.said(i, c.fleet.shown(to.id))
	inLine := l != nil && l.place && l.holder == "" && (l.next == nextTurn || l.next == nextAcquire)
	l = c.placed(i)
	l.holder = ""
	l.exp = c.now.Mono
	c.givenBackBy(l, from)
	if to.id == c.self {
		c.retry(l)
		if l.phase == acquiring {
			l.will(nextInherit)
		}
		return
	}
	turn, wait := nextTurn, c.heirGrace() // by then most have heard who took it, and need no order
	if to.id == "" {
		turn, wait = nextAcquire, c.stagger(l)
	}
	switch at := c.now.Mono + Time(wait); {
	case wait == 0:
		c.retry(l)
	case inLine && (to.id != "" || l.due <= at): // whoever says it again puts no turn off
	default:
		l.op = 0
		l.will(turn)
		c.armLease(l, at)
	}
}

// heirMoves is how many leases may change hands within HeirGrace.
const heirMoves = 600

// heirGrace is how long a lease is left to its heir: HeirGrace, and longer where many wait here, because Redis serves their heirs one after
// another. If all came in their turns before that, each would ask for each, and what they ask would be waited for longer than they wait.
func (c *Core) heirGrace() int64 {
	waiting := int64(len(c.leases) - len(c.held))
	return max(1, waiting/heirMoves) * c.cfg.HeirGrace
}

// retry acquires l now, whatever was being waited for.
func (c *Core) retry(l *lease) {
	l.op = 0
	c.tryAcquire(l)
}
