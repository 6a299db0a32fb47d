package core

// setOwner notes who owns l now; "" nobody.
func (c *Core) setOwner(l *lease, owner string) {
	if c.cfg.Place && l.session != nobody {
		c.ownedBy(l.session, owner)
	}
}

// ownedBy is setOwner for session i.
func (c *Core) ownedBy(i int32, owner string) {
	f := &c.fleet
	if f.discoveryOp != 0 {
		f.touched = append(f.touched, i)
	}
	f.known[i].free = false
	c.moveOwner(i, c.ownerIndex(i, owner))
}

// ownerIndex is nodeIndex of the owner of session i, who mostly is who it was; nobody for "".
func (c *Core) ownerIndex(i int32, owner string) int32 {
	if owner == "" {
		return nobody
	}
	if o := c.fleet.known[i].owner; o != nobody && c.nodes[o].id == owner {
		return o
	}
	return c.nodeIndex(owner)
}

// touch makes what a look under way shows of l count for nothing: it may have been read before what just happened.
func (c *Core) touch(l *lease) {
	if l.session != nobody && c.fleet.discoveryOp != 0 && c.cfg.Place {
		c.fleet.touched = append(c.fleet.touched, l.session)
	}
}

// moveOwner notes the owner of session i. A session that went where it was to go is a step of the plan that stands, and a
// placement made anew would be the rest of the same plan: a rebalance of many sessions, told one by one, does not cost a
// placement each. Nor does a session that loses a dead owner: to the placement it was free already.
func (c *Core) moveOwner(i, o int32) {
	f := &c.fleet
	old := f.known[i].owner
	if old == o {
		return
	}
	f.known[i].owner = o
	c.othersTake = c.othersTake || o > 0
	switch {
	case f.dirty:
		return
	case f.placeOf(o) == f.placeOf(old): // both nobody's
	case f.placeOf(o) != nobody && f.target[i] == f.place[o]:
		f.target[i] = nobody
	default:
		f.dirty = true
		return
	}
	if o != nobody {
		c.nodes[o].owned++
	}
	if old != nobody {
		c.nodes[old].owned--
	}
}

// placeOf returns where instance o stands among those that are placed on, nobody if it does not.
func (f *fleet) placeOf(o int32) int32 {
	if o == nobody {
		return nobody
	}
	return f.place[o]
}
