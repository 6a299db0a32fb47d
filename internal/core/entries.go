package core

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

// placed returns the entry of session i, which placement is after.
func (c *Core) placed(i int32) *lease {
	l := c.lease(c.fleet.sessions.IDs[i])
	l.place = true
	return l
}

// stands notes where the session of id's entry stands now, if it has one; came is what is known of a session that came. Where the
// session is gone and an attempt to acquire its lease was not answered, what that won is to be given back soon, not when a lease runs
// out that another held meanwhile.
func (c *Core) stands(id string, i int32, came *known) {
	l := c.leases[id]
	if l == nil {
		return
	}
	l.session = i
	if came != nil {
		came.entered, came.held = true, l.phase == owned
	}
	if i == nobody && l.unanswered && l.phase == idle && len(l.stuck) == 0 {
		c.rewatch(l)
	}
}
