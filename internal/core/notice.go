package core

import "slices"

// notice takes what another instance said to all. Notices only save time: each names something that a look would show.
func (c *Core) notice(n *Notice) {
	if n.From == c.self || !c.started || c.draining {
		return
	}
	switch n.Kind {
	case NoticeJoined: // what is placed on it, or given to it, waits for a look that shows its heartbeat: anybody may say so
		c.discover(discoverJoined)
	case NoticeLeft:
		if i, ok := c.index[n.From]; ok {
			c.heartbeatGone(i)
			c.nodes[i].seen = c.now.Mono
			c.discover(discoverLeft)
		}
	case NoticeTaken:
		for _, id := range n.IDs {
			c.taken(id, c.fleet.sessions.find(id), n.From)
		}
	case NoticeFreed:
		for k, id := range n.IDs {
			heir := ""
			if k < len(n.Peers) {
				heir = n.Peers[k]
			}
			c.freed(id, c.fleet.sessions.find(id), heir, n.From)
		}
	case NoticeAsked:
		if len(n.Peers) > 0 && n.Peers[0] == c.self && c.cfg.Place {
			c.asked(n)
			c.discover(discoverAsked)
		}
	}
}

// shown is the owner whom a notice names, or "" for one whom nothing in Redis has shown yet, which a look soon does: who is known by what
// is said would be placed around, and remembered, as many as somebody makes up.
func (c *Core) shown(owner string) string {
	if _, known := c.index[owner]; known || owner == "" {
		return owner
	}
	c.discover(discoverUnknown)
	return ""
}

// taken acts on an acquisition of id, which is session i.
func (c *Core) taken(id string, i int32, owner string) {
	l := c.entryOf(id, i)
	if l != nil && l.phase == owned {
		return // Redis decides, not hearsay: the next renewal tells
	}
	if l == nil && c.cfg.Place && i < 0 {
		c.discover(discoverUnknown)
		return
	}
	if i >= 0 {
		c.ownedBy(i, c.shown(owner))
	}
	if l == nil || l.phase != idle || l.stuck {
		return
	}
	l.holder = owner
	switch {
	case l.place && !l.want && c.heartbeatFresh(owner):
		c.forget(l)
	case l.want || l.place:
		l.next = nextRead // a hint puts no wait off: the lease is read when that ends
	}
}

// freed acts on a release of id, which is session i: the heir, or without one the target, acquires at once; whoever waits for
// this very lease does too; the others of the fleet give the heir a moment and then come in order.
func (c *Core) freed(id string, i int32, heir, from string) {
	l := c.entryOf(id, i)
	if l != nil && (l.phase != idle || l.stuck) {
		if l.phase == acquiring {
			l.next = nextAgain // the answer under way may be older than the release
		}
		return
	}
	if l != nil && l.want {
		l.holder = ""
		c.retry(l)
		return
	}
	if i < 0 {
		c.discover(discoverUnknown)
		return
	}
	if heir == from {
		c.ownedBy(i, "") // its session went or was paused, which this instance has yet to see
		c.discover(discoverToNobody)
		return
	}
	c.ownedBy(i, c.shown(heir)) // the heir is as good as the owner: what follows is placed around it
	l = c.lease(id)
	l.place = true
	l.holder = ""
	l.exp = c.now.Mono
	if heir == c.self {
		c.retry(l)
		if l.phase == acquiring {
			l.next = nextInherit
		}
		return
	}
	l.next, l.op = nextAcquire, 0
	if heir != "" {
		l.next = nextTurn // by then most have heard who took it, and need no order
		c.armLease(l, c.now.Mono+Time(c.cfg.HeirGrace))
		return
	}
	if d := c.stagger(l); d > 0 {
		c.armLease(l, c.now.Mono+Time(d))
	} else {
		c.retry(l)
	}
}

// retry acquires l now, whatever was being waited for.
func (c *Core) retry(l *lease) {
	l.op = 0
	c.tryAcquire(l)
}

// askForMine asks the owners of what this instance should have, one message to each. It is repeated at every look: a
// message may be lost, and nobody gives up unasked.
func (c *Core) askForMine() {
	f := &c.fleet
	f.hoped = f.hoped[:0]
	c.placement()
	if until, _ := c.Blocked(); until != 0 {
		c.discover(discoverBlocked)
		return
	}
	if !c.nodes[0].alive {
		return // nobody would give it anything
	}
	me := f.place[0]
	if me == nobody {
		return
	}
	f.waits = f.waits[:0]
	for i, t := range f.target {
		if t != me {
			continue
		}
		if o := f.known[i].owner; o > 0 && c.nodes[o].alive {
			f.waits = append(f.waits, int32(i))
		}
	}
	if c.unable > 0 || c.withdrawals > 0 {
		f.waits = f.waits[:min(1, len(f.waits))] // it has yet to show that it can take what it is given
	}
	f.hoped = append(f.hoped, f.waits...)
	c.askAgain(len(f.waits))
	if len(f.waits) > 0 && !c.mayAsk() {
		return
	}
	for k := range f.waits {
		if f.waits[k] < 0 {
			continue
		}
		o := f.known[f.waits[k]].owner
		peer := c.nodes[o].id
		var items []Item
		for j := k; j < len(f.waits); j++ {
			if i := f.waits[j]; i >= 0 && f.known[i].owner == o {
				items = append(items, Item{ID: f.sessions.IDs[i], Peer: peer})
				f.waits[j] = -1
			}
		}
		c.send(OpAsk, items, nil)
	}
}

// mayAsk allows two askings in a tenth of the interval: the one that a join needs at once, and one on what came of it.
func (c *Core) mayAsk() bool {
	f := &c.fleet
	if c.now.Mono-f.askFrom >= Time(c.cfg.Discovery/10) {
		f.askFrom, f.askings = c.now.Mono, 0
	}
	f.askings++
	return f.askings <= 2
}

// askAgain counts the looks in a row that asked for as much.
func (c *Core) askAgain(missing int) {
	f := &c.fleet
	if missing != f.missing {
		f.missing, f.asked = missing, 0
	}
	f.asked++
	c.discover(discoverAsking)
}

// asksMax bounds what is kept until the next look. An instance asks each other twice in the time of one at the most.
const asksMax = 1024

// asked keeps what another instance wants until the next look. It takes the place of what that one wanted before.
func (c *Core) asked(n *Notice) {
	f := &c.fleet
	if len(f.asks) >= asksMax {
		return
	}
	f.asks = slices.DeleteFunc(f.asks, func(a ask) bool { return a.again && a.from == n.From })
	f.asks = append(f.asks, ask{from: n.From, ids: n.IDs, after: c.seq, at: c.now.Mono})
}

// lacks reports whether instance i owns less than its share. known is false for who is not placed on.
func (c *Core) lacks(i int32) (lacks, known bool) {
	p := c.fleet.place[i]
	if p == nobody {
		return false, false
	}
	return c.nodes[i].owned < c.fleet.quota[p], true
}

// answerAsks gives, on what the look just made shows, what others asked for and this instance owns above its quota.
// Who asks may know of an instance that is not counted here yet: what cannot be given now is kept in mind for an interval.
func (c *Core) answerAsks(look uint64) {
	f := &c.fleet
	if len(f.asks) == 0 {
		return
	}
	if c.epoch.quarantine > c.now.Mono {
		f.asks = f.asks[:0]
		return // what is given up now nobody can take
	}
	c.placement()
	me := f.place[0]
	if me == nobody {
		return
	}
	excess := -f.quota[me]
	for _, l := range c.held {
		if l.place && !l.yielding && l.session != nobody {
			excess++
		}
	}
	later := f.asks[:0]
	for _, a := range f.asks {
		if a.after >= look {
			later = append(later, a)
			continue
		}
		i, ok := c.index[a.from]
		if !ok || !c.nodes[i].alive {
			continue
		}
		lacks, known := c.lacks(i)
		if a.again && !lacks {
			continue
		}
		a.again = known && !lacks // it asked more than once, or others gave: what it got since, the others lack
		for k := 0; k < len(a.ids) && !a.again; k++ {
			l := c.leases[a.ids[k]]
			if l == nil || l.phase != owned || l.yielding || l.want && !l.place {
				continue
			}
			if a.again = excess <= 0; !a.again {
				excess--
				c.yield(l, a.from, CauseRebalance)
			}
		}
		if a.again && c.now.Mono < a.at+Time(c.cfg.Discovery) {
			later = append(later, a)
		}
	}
	clear(f.asks[len(later):])
	f.asks = later
}
