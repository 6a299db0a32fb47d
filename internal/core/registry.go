package core

import "slices"

// node is an instance, as its heartbeat and its leases show it.
type node struct {
	id        string
	hash      uint64
	exp       Time   // when its heartbeat expires, as far as known
	seen      Time   // when it was last known to live: an older discovery does not say that it is gone
	discovery uint64 // the last that showed it
	owned     int32
	gen       uint32 // of its timer
	alive     bool   // its heartbeat lives
	suspect   bool   // a lease of it expired while its heartbeat lived: not counted until the heartbeat is refreshed
	reading   bool   // its heartbeat is being read
	checked   bool   // its heartbeat was read shortly before it expires and was not refreshed
	since     Time   // suspect: the expiry its heartbeat had then
}

// nodeIndex returns the index of an instance, which it makes known if it was not.
func (c *Core) nodeIndex(id string) int32 {
	if i, ok := c.index[id]; ok {
		return i
	}
	n := node{id: id, hash: hashID(id), alive: id == c.self}
	var i int32
	if k := len(c.fleet.vacant); k > 0 {
		i = c.fleet.vacant[k-1]
		c.fleet.vacant = c.fleet.vacant[:k-1]
		n.gen = c.nodes[i].gen
		c.nodes[i] = n
	} else {
		i = int32(len(c.nodes))
		c.nodes = append(c.nodes, n)
	}
	c.index[id] = i
	c.fleet.dirty = true
	return i
}

// heartbeatFresh reports whether owner's leases need no watching of their own, because its heartbeat is fresh and is watched.
func (c *Core) heartbeatFresh(owner string) bool {
	i, ok := c.index[owner]
	return ok && c.fresh(i)
}

// fresh is heartbeatFresh for instance i.
func (c *Core) fresh(i int32) bool {
	return i > 0 && c.nodes[i].alive && c.nodes[i].exp > c.now.Mono+Time(c.cfg.Lead)
}

// heartbeatSeen takes note that instance i's heartbeat expires at exp.
func (c *Core) heartbeatSeen(i int32, exp Time) (changed bool) {
	n := &c.nodes[i]
	changed = !n.alive
	if !n.alive {
		n.alive = true
		c.fleet.dirty = true
	}
	if n.suspect && exp > n.since+Time(c.cfg.Renew/4) {
		n.suspect = false
		c.fleet.dirty = true
		changed = true
	}
	n.seen = c.now.Mono
	if exp > n.exp {
		n.exp = exp
		n.checked = false
		c.armNode(i, exp-Time(c.cfg.Lead))
	}
	return changed
}

// heartbeatGone takes note that instance i shows no heartbeat.
func (c *Core) heartbeatGone(i int32) {
	n := &c.nodes[i]
	n.gen++
	if !n.alive {
		return
	}
	n.alive, n.suspect, n.exp = false, false, 0
	c.fleet.dirty = true
}

// suspect takes note that the lease just won had expired under its holder's living heartbeat.
func (c *Core) suspect(l *lease) {
	if !l.place || l.holder == "" || l.holder == c.self {
		return
	}
	i, ok := c.index[l.holder]
	if !ok || !c.nodes[i].alive || c.nodes[i].suspect {
		return
	}
	n := &c.nodes[i]
	switch {
	case l.exp > c.now.Mono:
		return // it has not come to its end: it was given back, which is yet to be heard or was while this was asked for
	case n.exp > l.exp+Time(c.cfg.Renew/4):
		return // its heartbeat was set since: it lives, and lost a race
	}
	n.suspect, n.since = true, n.exp
	c.fleet.dirty = true
	c.tell(Tell{Kind: TellSuspect, ID: l.id, Owner: n.id})
}

// rearmNode has instance i's heartbeat read shortly before it expires, or, if that is past, when it should have.
func (c *Core) rearmNode(i int32) {
	exp := c.nodes[i].exp
	if lead := exp - Time(c.cfg.Lead); lead > c.now.Mono {
		c.armNode(i, lead)
		return
	}
	c.armNode(i, max(exp, c.now.Mono)+Time(Millisecond))
}

// wakeNode looks at a heartbeat that is about to expire, and again when it should have.
func (c *Core) wakeNode(i int32) {
	if c.draining || c.nodes[i].reading {
		return // the answer sets the next time
	}
	c.queue.nodes = append(c.queue.nodes, i)
}

// flushNodes sends what wakeNode collected. What would be due within a renewal interval is read along: one by one, every instance
// of a large fleet would read every other's heartbeat with a call of its own.
func (c *Core) flushNodes() {
	if len(c.queue.nodes) == 0 || c.paced(OpNodes) {
		return
	}
	soon := c.now.Mono + Time(c.cfg.Lead+c.cfg.Renew)
	for i := 1; i < len(c.nodes); i++ {
		if n := &c.nodes[i]; n.alive && !n.reading && n.exp <= soon {
			c.queue.nodes = append(c.queue.nodes, int32(i))
		}
	}
	slices.Sort(c.queue.nodes)
	var items []Item
	for _, i := range slices.Compact(c.queue.nodes) {
		n := &c.nodes[i]
		if !n.alive {
			continue // gone or forgotten since
		}
		n.reading = true
		items = append(items, Item{ID: n.id})
		if len(items) == c.cfg.Batch {
			c.send(OpNodes, items, nil)
			items = nil
		}
	}
	if len(items) > 0 {
		c.send(OpNodes, items, nil)
	}
	c.queue.nodes = c.queue.nodes[:0]
}

func (c *Core) nodesAnswered(in *inflight, a *Answer) {
	for k, it := range in.op.Items {
		i := c.nodeIndex(it.ID)
		c.nodes[i].reading = false
		r := a.result(k)
		if i == 0 {
			continue
		}
		if r.Outcome == OutUnknown {
			c.armNode(i, c.now.Mono+Time(c.cfg.MaxProbe))
			continue
		}
		if r.Outcome == OutGone {
			if n := &c.nodes[i]; n.seen > in.op.Sent {
				if n.alive { // seen so since this was sent: which came first is not known
					c.rearmNode(i)
				}
				continue
			}
			c.watch(i)
			c.heartbeatGone(i)
			c.discover(discoverGone)
			continue
		}
		exp := c.expiry(&in.op, r.PTTL)
		c.heartbeatSeen(i, exp)
		if c.nodes[i].exp-c.now.Mono <= 2*Time(c.cfg.Lead) {
			// It is about to expire. The leases of its owner expire at about the same time: read when.
			if !c.nodes[i].checked {
				c.heartbeatOverdue(i)
			}
			c.armNode(i, max(c.nodes[i].exp, c.now.Mono)+Time(Millisecond))
		}
	}
}

// heartbeatOverdue takes note that instance i has not refreshed its heartbeat when it should long have: it is not counted any more,
// so that the order in which the others come for its leases is settled before they expire.
func (c *Core) heartbeatOverdue(i int32) {
	n := &c.nodes[i]
	n.checked = true
	n.suspect, n.since = true, n.exp
	c.fleet.dirty = true
	c.watch(i)
}

// watch reads the leases of an instance that seems to have died, so as to be there when they expire; what was free may have been
// left to it, and is looked at again. Not while nothing may be acquired, as takeFree does not.
func (c *Core) watch(o int32) {
	if until, _ := c.Blocked(); !c.cfg.Place || until != 0 {
		return
	}
	if c.fleet.anyFree {
		c.discover(discoverGoneHeir)
	}
	for i := range c.fleet.known {
		if c.fleet.known[i].owner != o {
			continue
		}
		l := c.lease(c.fleet.sessions.IDs[i])
		if l.phase == idle && !l.stuck && !l.place {
			l.place = true
			c.observe(l)
		}
	}
}

// seeNodes takes over the heartbeats that a look showed. It reports whether the set of live instances changed.
func (c *Core) seeNodes(in *inflight, seen []Seen) (changed bool) {
	for _, s := range seen {
		i := c.nodeIndex(s.ID)
		if i == 0 {
			continue
		}
		if c.heartbeatSeen(i, c.expiry(&in.op, s.PTTL)) {
			changed = true
		}
		c.nodes[i].discovery = c.fleet.discoveries
	}
	for i := 1; i < len(c.nodes); i++ {
		n := &c.nodes[i]
		if n.alive && n.discovery != c.fleet.discoveries && n.seen <= in.op.Sent {
			c.heartbeatGone(int32(i))
			changed = true
		}
	}
	return changed
}

// acquisitionsFail counts acquisitions that fail. An instance that can be heard and yet wins nothing it is given would keep
// asking for its share and have it released for nothing: it leaves the registry, for longer each time.
func (c *Core) acquisitionsFail(in *inflight) {
	c.queue.beat = c.queue.beat || !c.cfg.NoHeartbeat // which shows, before the next attempt, who it is that cannot
	if !c.written || !c.othersTake {
		return // not even a heartbeat can be written, or nobody takes anything: it is Redis, not this instance
	}
	if in.op.Sent < c.unableAt {
		return // it was under way when the last one failed, and says nothing new
	}
	c.written, c.othersTake, c.unableAt = false, false, c.now.Mono
	if c.unable++; c.unable < 3 || c.cfg.NoHeartbeat || c.rejoin != 0 || c.draining {
		return
	}
	pause := c.cfg.TTL << min(c.withdrawals, 4)
	c.withdrawals++
	c.rejoin = c.now.Mono + Time(pause)
	c.nodes[0].alive = false
	c.fleet.dirty = true
	c.queue.leave = true
	c.tell(Tell{Kind: TellWithdrawn, Wait: pause})
}

// prune forgets the dead that own nothing, so that a fleet whose instances come and go for years costs no memory.
func (c *Core) prune() {
	c.placement()
	for i := 1; i < len(c.nodes); i++ {
		n := &c.nodes[i]
		if n.id != "" && !n.alive && n.owned == 0 {
			delete(c.index, n.id)
			*n = node{gen: n.gen + 1}
			c.fleet.vacant = append(c.fleet.vacant, int32(i))
		}
	}
}

func (c *Core) beatAnswered(in *inflight, a *Answer) {
	if a.Stale {
		c.queue.beat = true
	}
	c.written = !a.Stale
	c.beatEnded()
}

// beatEnded: a heartbeat that was under way when the instance left may have been set after it was deleted.
func (c *Core) beatEnded() {
	if c.draining {
		c.queue.leave = true
	}
}
