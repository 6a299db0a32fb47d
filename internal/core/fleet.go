package core

import (
	"cmp"
	"slices"
)

// fleet is what this instance knows of the sessions and their owners: the last look, corrected by what notices and its
// own acts told since.
type fleet struct {
	sessions     *Sessions
	known        []known // aligned with sessions
	anyFree      bool    // the last look showed a session that nobody owns
	discoveries  uint64  // so far
	discoveryOp  uint64  // the look under way, 0 none
	touched      []int32 // sessions that changed owner while a look was under way: it may be older than that
	left         []left  // what the last look shows free although its owner lives, ascending by session
	hoped        []int32 // sessions that this instance wanted of others at the last look, ascending: they may be released to it
	asks         []ask   // to be decided on what the next look shows
	missing      int     // sessions that the last look asked others for
	asked        int     // looks in a row that asked for as many
	askFrom      Time    // beginning of a tenth of an interval
	askings      int     // in it
	discoveredAt Time    // when the last look was sent

	vacant []int32 // entries of Core.nodes that nobody uses

	dirty  bool    // target is out of date
	live   []int32 // live instances, ascending by ID: index into Core.nodes
	place  []int32 // nodes → index into live, or nobody
	owners []int32 // aligned with sessions; index into live, or nobody
	target []int32 // aligned with sessions; index into live, or nobody where the owner keeps it
	quota  []int32 // aligned with live
	hashes []uint64
	waits  []int32
}

// left is a session without the owner that it had.
type left struct {
	session, owner int32
	ask            bool
}

// ask is what another instance wants; it is decided on a look that was sent after it was heard.
type ask struct {
	from  string
	ids   []string
	after uint64 // ops sent before it was heard
	at    Time   // when it was heard
	again bool   // a look has shown nothing to give
}

const nobody = int32(-1)

// placement brings target up to date.
func (c *Core) placement() {
	f := &c.fleet
	if !f.dirty {
		return
	}
	f.dirty = false
	f.live = f.live[:0]
	for i := range c.nodes {
		if n := &c.nodes[i]; n.alive && !n.suspect {
			f.live = append(f.live, int32(i))
		}
	}
	slices.SortFunc(f.live, func(a, b int32) int { return cmp.Compare(c.nodes[a].id, c.nodes[b].id) })
	f.place = resize(f.place, len(c.nodes))
	for i := range f.place {
		f.place[i] = nobody
	}
	f.hashes = f.hashes[:0]
	for k, i := range f.live {
		f.place[i] = int32(k)
		f.hashes = append(f.hashes, c.nodes[i].hash)
	}
	for i := range c.nodes {
		c.nodes[i].owned = 0
	}
	f.owners = resize(f.owners, len(f.known))
	for i := range f.known {
		f.owners[i] = nobody
		if o := f.known[i].owner; o != nobody {
			c.nodes[o].owned++
			f.owners[i] = f.place[o]
		}
	}
	target, quota := c.cfg.Placement.Place(f.sessions, f.hashes, f.owners)
	f.target, f.quota = append(f.target[:0], target...), append(f.quota[:0], quota...)
}

// targetOf returns the instance that should take session i, nobody where its owner keeps it.
func (c *Core) targetOf(i int32) int32 {
	c.placement()
	if t := c.fleet.target[i]; t != nobody {
		return c.fleet.live[t]
	}
	return nobody
}

// heirOf returns who should take l when this instance is gone.
func (c *Core) heirOf(l *lease) string {
	if !c.cfg.Place || l.session == nobody {
		return ""
	}
	if t := c.targetOf(l.session); t > 0 {
		return c.nodes[t].id
	}
	return ""
}

// stagger is how long this instance leaves l to those before it: the target acquires at once, the others in order, by how
// little they own and then by rank. A dead successor so costs milliseconds, not a TTL.
func (c *Core) stagger(l *lease) int64 {
	if !l.place || l.session == nobody {
		return 0
	}
	return c.staggerOf(l.session)
}

// staggerOf is stagger for session i.
func (c *Core) staggerOf(i int32) int64 {
	t := c.targetOf(i)
	if t == 0 {
		return 0
	}
	f := &c.fleet
	h := f.sessions.hashes[i]
	me := &c.nodes[0]
	mine := rank(me.hash, h)
	k := 1 // the target is before
	for _, j := range f.live {
		if k >= c.cfg.StaggerMax {
			break // whoever comes later comes then
		}
		n := &c.nodes[j]
		if j == 0 || j == t {
			continue
		}
		if n.owned < me.owned || n.owned == me.owned && rank(n.hash, h) > mine {
			k++
		}
	}
	return int64(min(k, c.cfg.StaggerMax)) * c.cfg.Stagger
}

func (c *Core) discoveryAnswered(in *inflight, a *Answer) {
	f := &c.fleet
	if in.op.Seq != f.discoveryOp {
		return
	}
	f.discoveryOp = 0
	if a.Look == nil || c.draining || c.rejoin != 0 || c.epoch.outside {
		return
	}
	f.discoveries++
	changed := c.seeNodes(in, a.Look.Nodes)
	if c.cfg.Place {
		changed = c.seeOwners(a.Look) || changed
	}
	f.touched = f.touched[:0]
	f.dirty = f.dirty || changed
	c.discover(discoverInterval)
	if changed {
		c.discover(discoverChanged)
	}
	if c.cfg.Place {
		c.answerAsks(in.op.Seq)
		c.takeFree()
		c.askForMine()
		c.dropUnwanted()
	}
	c.prune()
}

// seeOwners takes over the sessions and owners that a look showed. It reports whether the set of sessions changed.
func (c *Core) seeOwners(look *Look) bool {
	f := &c.fleet
	changed := f.sessions != look.Sessions && !slices.Equal(f.sessions.IDs, look.Sessions.IDs)
	if f.sessions != look.Sessions {
		c.remap(look.Sessions)
	}
	slices.Sort(f.touched)
	f.left = f.left[:0]
	for i, owner := range look.Owners {
		s, k := int32(i), &f.known[i]
		if o := k.owner; o > 0 && c.nodes[o].id == owner {
			continue // as most are: nothing is new
		}
		if len(f.touched) > 0 {
			if _, ok := slices.BinarySearch(f.touched, s); ok {
				continue
			}
		}
		o := c.ownerIndex(s, owner)
		if o != nobody {
			k.free = false
		}
		if k.held && k.owner == 0 && o != 0 {
			// We believe to own what Redis shows as not ours: a foreign hand, or a read older than the grant. Ask.
			if l := c.entry(s); l.op == 0 {
				c.requestRenew(l)
			}
			continue
		}
		if was := k.owner; o == nobody && was > 0 && c.nodes[was].alive {
			f.left = append(f.left, left{session: s, owner: was})
		}
		c.moveOwner(s, o)
	}
	return changed
}

// takeFree acts on the sessions without a live owner. One that is merely found free is taken only by its target; one that
// was already free at the look before, by whoever comes first in order. One whose owner shows no heartbeat is watched. None of
// it while nothing may be acquired: in a Redis that has just lost its data no heartbeat lives and every session is free, and
// each instance of a large fleet would come to watch all of them. What is left then is seen by the look that askForMine makes.
func (c *Core) takeFree() {
	f := &c.fleet
	c.placement()
	until, _ := c.Blocked()
	f.waits = f.waits[:0]
	for i := range f.known {
		k := &f.known[i]
		if o := k.owner; o == nobody || o == 0 && !k.held || o > 0 && !c.nodes[o].alive {
			f.waits = append(f.waits, int32(i))
		}
	}
	f.anyFree = false
	for _, i := range f.waits {
		k, id := &f.known[i], f.sessions.IDs[i]
		o := k.owner
		l := c.entry(i)
		if l != nil && (l.phase != idle || l.stuck || l.place && o != 0 && (o > 0 || !c.givenBack(l))) {
			f.anyFree = f.anyFree || o == nobody && !l.stuck
			continue // held, under way, or its turn is set already
		}
		switch {
		case o == 0: // ours in Redis, no term here: an attempt that was not answered, whatever was waited for since
			l = c.lease(id)
			l.place = true
			c.tryAcquire(l)
		case until != 0:
			k.free = false // what could not be taken is found free at the look after
		case o != nobody:
			l = c.lease(id)
			l.place = true
			c.observe(l)
		default:
			f.anyFree = true
			c.foundFree(i, id)
		}
	}
	c.askFormers()
	if f.anyFree {
		c.discover(discoverFree)
	}
}

// givenBack reports whether l, found free, is waited for because somebody held it who must have given it back since. A key that a
// foreign hand made has a holder without a name, and is asked about once a TTL.
func (c *Core) givenBack(l *lease) bool { return l.holder != "" && l.exp > c.now.Mono }

func (c *Core) foundFree(i int32, id string) {
	second := c.fleet.known[i].free
	c.fleet.known[i].free = true
	if !second && c.vanished(i) {
		return
	}
	mine := c.targetOf(i) == 0
	if !mine && !second {
		return
	}
	l := c.lease(id)
	l.place = true
	l.exp = c.now.Mono
	if mine {
		c.tryAcquire(l)
	} else {
		c.awaitExpiry(l)
	}
}

// vanished reports whether session i had a living owner until this look, that nothing told of a release and nobody here
// asked for one: a foreign hand may have deleted the key without its owner's knowing.
func (c *Core) vanished(i int32) bool {
	f := &c.fleet
	if _, hoped := slices.BinarySearch(f.hoped, i); hoped {
		return false
	}
	k, ok := slices.BinarySearchFunc(f.left, i, func(l left, i int32) int { return cmp.Compare(l.session, i) })
	if !ok {
		return false
	}
	f.left[k].ask = true
	return true
}

// askFormers has the owners of what vanished look for themselves, which they are given until the next look: it comes soon,
// because mostly it was a release that was not heard.
func (c *Core) askFormers() {
	all := slices.DeleteFunc(c.fleet.left, func(l left) bool { return !l.ask })
	c.fleet.left = all
	if until, _ := c.Blocked(); until != 0 {
		return // nobody takes anything now
	}
	slices.SortStableFunc(all, func(a, b left) int { return cmp.Compare(a.owner, b.owner) })
	for len(all) > 0 {
		owner := all[0].owner
		var items []Item
		for len(all) > 0 && all[0].owner == owner {
			items = append(items, Item{ID: c.fleet.sessions.IDs[all[0].session], Peer: c.nodes[owner].id})
			all = all[1:]
		}
		c.send(OpAsk, items, nil)
		c.discover(discoverVanished)
	}
}

// dropUnwanted ends the work of placed leases whose session was gone or paused at two looks in a row. Not while Redis has
// just forgotten: its sessions come back from whoever keeps them, and a lease given up in a quarantine is out of reach
// until its end.
func (c *Core) dropUnwanted() {
	for _, l := range c.held {
		switch {
		case !l.place || l.want || l.yielding:
		case l.session != nobody || c.epoch.quarantine > c.now.Mono:
			l.next = nextNothing
		case l.next != nextYield:
			l.next = nextYield
			c.discover(discoverMissing)
		default:
			c.yield(l, "", CauseUnwanted)
		}
	}
}

// PreferredOwner returns the instance that should own id: its owner where that keeps it, else the one it is to be given
// to, else, for an unknown session, the live instance that ranks it highest. "" if no instance is live.
func (c *Core) PreferredOwner(id string) string {
	c.placement()
	if i := c.fleet.sessions.find(id); i >= 0 && c.cfg.Place {
		if t := c.targetOf(i); t != nobody {
			return c.nodes[t].id
		}
		if o := c.fleet.known[i].owner; o != nobody {
			return c.nodes[o].id
		}
	}
	best, owner, h := uint64(0), "", hashID(id)
	for _, i := range c.fleet.live {
		if r := rank(c.nodes[i].hash, h); owner == "" || r > best {
			best, owner = r, c.nodes[i].id
		}
	}
	return owner
}

// LiveNodes returns the IDs of the instances whose heartbeat lives, itself among them, ascending.
func (c *Core) LiveNodes() []string {
	c.placement()
	ids := make([]string, 0, len(c.fleet.live))
	for _, i := range c.fleet.live {
		ids = append(ids, c.nodes[i].id)
	}
	return ids
}

// Settled reports whether, as far as this instance can see, nothing is left to move: every session has a live owner, and
// none is to be given to another.
func (c *Core) Settled() bool {
	if !c.started || c.draining || c.silence.on || c.cfg.Place && c.fleet.discoveries == 0 {
		return false
	}
	c.placement()
	for _, t := range c.fleet.target {
		if t != nobody {
			return false
		}
	}
	return true
}
