package core

import "github.com/leasestorm/leasestorm/internal/term"

func (c *Core) lease(id string) *lease {
	l, ok := c.leases[id]
	if !ok {
		l = &lease{Term: term.NewTerm(id), pos: -1, session: c.fleet.sessions.find(id)}
		c.leases[id] = l
		if l.session != nobody {
			c.fleet.known[l.session].entered = true
		}
	}
	return l
}

// entry returns the entry of session i, nil without one. In a large fleet few sessions have an entry.
func (c *Core) entry(i int32) *lease {
	if !c.fleet.known[i].entered {
		return nil
	}
	return c.leases[c.fleet.sessions.IDs[i]]
}

// entryOf returns the entry of id, nil without one; i is its session or nobody.
func (c *Core) entryOf(id string, i int32) *lease {
	if i == nobody {
		return c.leases[id]
	}
	return c.entry(i)
}

// forget drops the entry of a lease that this instance neither holds, wants nor watches any more.
func (c *Core) forget(l *lease) {
	l.gen++ // cancels its timer
	l.Cancel()
	delete(c.leases, l.ID())
	if l.session != nobody {
		c.fleet.known[l.session].entered = false
	}
}

func (c *Core) holds(l *lease, held bool) {
	if l.session != nobody {
		c.fleet.known[l.session].held = held
	}
}

// placed returns the entry of session i and marks it as wanted by placement.
func (c *Core) placed(i int32) *lease {
	l := c.lease(c.fleet.sessions.IDs[i])
	l.place = true
	return l
}

// stands sets the session of id's entry, if there is one, to index i. came is the entry in known of a new session, else nil. If the
// session is gone and an attempt to acquire its lease was not answered, the lease is read soon, to give back what that attempt may have
// won.
func (c *Core) stands(id string, i int32, came *known) {
	l := c.leases[id]
	if l == nil {
		return
	}
	l.session = i
	if came != nil {
		came.entered, came.held = true, l.Phase() == owned
	}
	if i == nobody && l.unanswered && l.Phase() == idle && len(l.stuck) == 0 {
		c.rewatch(l)
	}
}
