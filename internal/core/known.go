package core

import "slices"

// known is what this instance knows of a session. Each move of each session is told to every instance: what that asks for
// lies together, because in a large fleet none of it is in the cache.
type known struct {
	owner   int32 // index into Core.nodes, nobody if free
	free    bool  // found free at the last look already
	entered bool  // Core.leases has an entry of it
	held    bool  // and it is in Core.held
}

// lease returns the entry of id, which it makes if there is none.
func (c *Core) lease(id string) *lease {
	l, ok := c.leases[id]
	if !ok {
		l = &lease{term: term{id: id}, pos: -1, session: c.fleet.sessions.find(id)}
		c.leases[id] = l
		if l.session != nobody {
			c.fleet.known[l.session].entered = true
		}
	}
	return l
}

// entry returns the entry of session i, nil without one. Few of a large fleet's sessions have one.
func (c *Core) entry(i int32) *lease {
	if !c.fleet.known[i].entered {
		return nil
	}
	return c.leases[c.fleet.sessions.IDs[i]]
}

// entryOf returns the entry of id, which is session i or nobody's.
func (c *Core) entryOf(id string, i int32) *lease {
	if i == nobody {
		return c.leases[id]
	}
	return c.entry(i)
}

// forget drops the entry of a lease that nobody holds, wants or watches here.
func (c *Core) forget(l *lease) {
	l.gen++ // its timers
	l.op = 0
	delete(c.leases, l.id)
	if l.session != nobody {
		c.fleet.known[l.session].entered = false
	}
}

// holds notes at l's session whether it is held.
func (c *Core) holds(l *lease, held bool) {
	if l.session != nobody {
		c.fleet.known[l.session].held = held
	}
}

// remap carries what is known over to another set of sessions. Both sets are sorted, so it is one walk.
func (c *Core) remap(to *Sessions) {
	f := &c.fleet
	all := make([]known, len(to.IDs))
	slices.Sort(f.touched)
	var touched []int32
	was := f.sessions.IDs
	j := 0
	for i, id := range to.IDs {
		s, k := int32(i), &all[i]
		// Mostly it is the very same string, which is told without reading it.
		for ; j < len(was) && was[j] != id && was[j] < id; j++ {
			c.standsAt(was[j], f.known[j].entered, nobody)
		}
		if j < len(was) && was[j] == id {
			*k = f.known[j]
			c.standsAt(id, k.entered && i != j, s)
			if _, ok := slices.BinarySearch(f.touched, int32(j)); ok {
				touched = append(touched, s)
			}
			j++
			continue
		}
		k.owner = nobody
		if l := c.leases[id]; l != nil {
			l.session = s
			k.entered, k.held = true, l.phase == owned
			if k.held {
				k.owner = 0
			}
		}
	}
	for ; j < len(was); j++ {
		c.standsAt(was[j], f.known[j].entered, nobody)
	}
	f.sessions, f.known, f.touched, f.hoped = to, all, touched, f.hoped[:0]
	f.dirty = true
}

// standsAt notes where the session of id's entry stands now, if it has one. Where the session is gone and an attempt to acquire
// its lease was not answered, what that won is to be given back soon, not when a lease runs out that another held meanwhile.
func (c *Core) standsAt(id string, entered bool, i int32) {
	if !entered {
		return
	}
	l := c.leases[id]
	l.session = i
	if i == nobody && l.unanswered && l.phase == idle && !l.stuck {
		c.rewatch(l)
	}
}
