package core

import (
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

func (c *Core) lease(id string) *lease {
	l, ok := c.leases[id]
	if !ok {
		l = &lease{Term: term.NewTerm(id), pos: -1, session: c.table.Find(id)}
		c.leases[id] = l
		c.table.Enter(l.session, true)
	}
	return l
}

// entry returns the entry of session i, nil without one.
func (c *Core) entry(i int32) *lease {
	if !c.table.Entered(i) {
		return nil
	}
	return c.leases[c.table.ID(i)]
}

// entryOf returns the entry of id, nil without one; i is its session or nobody.
func (c *Core) entryOf(id string, i int32) *lease {
	if i == place.Nobody {
		return c.leases[id]
	}
	return c.entry(i)
}

// forget drops the entry of a lease that this instance neither holds, wants nor watches any more.
func (c *Core) forget(l *lease) {
	l.gen++ // cancels its timer
	l.Cancel()
	delete(c.leases, l.ID())
	c.table.Enter(l.session, false)
}

// placed returns the entry of session i and marks it as wanted by placement.
func (c *Core) placed(i int32) *lease {
	l := c.lease(c.table.ID(i))
	l.place = true
	return l
}

// stands is called with the new index of session id, or with place.Nobody if the session is gone. It returns whether the session's lease
// has an entry, and whether this instance owns the lease. If the session is gone and an attempt to acquire its lease got no answer, the
// lease is read soon, so that a lease which that attempt acquired can be given back.
func (c *Core) stands(id string, i int32) (entered, held bool) {
	l := c.leases[id]
	if l == nil {
		return false, false
	}
	l.session = i
	if i == place.Nobody && l.unanswered && l.Phase() == idle && len(l.stuck) == 0 {
		l.will(nextRead)
		c.timers.armLease(l, c.k.Now()+Time(c.cfg.MaxProbe))
	}
	return true, l.Phase() == owned
}
