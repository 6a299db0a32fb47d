package core

import "fmt"

// Entries returns an error where what is known of a session says otherwise of this instance's entry of it than the entry.
func (c *Core) Entries() error {
	for i, id := range c.table.Sessions().IDs {
		l := c.entries.leases[id]
		if entered := c.table.Entered(int32(i)); entered != (l != nil) {
			return fmt.Errorf("%s is known as entered %t; its entry is %+v", id, entered, l)
		}
	}
	for id, l := range c.entries.leases {
		if i := c.table.Find(id); l.session != i {
			return fmt.Errorf("the entry of %s names session %d, which is %d", id, l.session, i)
		}
		if (l.pos >= 0) != (l.Phase() == owned) {
			return fmt.Errorf("%s is in phase %d and stands at %d of what is held", id, l.Phase(), l.pos)
		}
	}
	return nil
}

// Every core of every test of this package, in stories as in storms, is held to its states and invariants after each step.
func init() {
	Unlisted = func(lease, state string) { panic(lease + " is " + state) }
	stepped = func(c *Core) {
		if err := c.broken(); err != nil {
			panic(err)
		}
	}
}

// broken returns an error where a lease is in a state that nextsOf does not list, or a term breaks an invariant of terms. Of large
// fleets it looks at none: the small ones come to the same states.
func (c *Core) broken() error {
	if len(c.entries.leases) > 64 {
		return nil
	}
	for _, l := range c.entries.leases {
		switch {
		case !nextsOf[l.Phase()][l.next]:
			return fmt.Errorf("%s is %s: there is no such state", l.ID(), l.state())
		case l.Phase() != owned && (l.Until() != 0 || l.Uncertain() || l.Forgotten()):
			return fmt.Errorf("%s is not held, and %+v: what has ended is trusted", l.ID(), l.Term)
		case l.Op() != ^uint64(0) && l.Op() > c.k.Seq():
			return fmt.Errorf("%s waits for op %d of %d", l.ID(), l.Op(), c.k.Seq())
		case l.Until() != 0 && l.Until() > c.k.Now()+Time(l.TTL()-c.cfg.Margin()):
			return fmt.Errorf("%s is trusted until %d at %d: longer than a stamp gives (I1)", l.ID(), l.Until(), c.k.Now())
		case l.Forgotten() && !l.Uncertain():
			return fmt.Errorf("%s is to be asserted again, and certain (I6)", l.ID())
		}
	}
	return nil
}

// asleep returns an error where nothing is left to wake a lease: neither a timer nor a request under way. Its state would be left by
// chance or never.
func (c *Core) asleep() error {
	armed := map[*lease]bool{}
	for i := range c.timers.Timers {
		if t := &c.timers.Timers[i].Of; t.kind == timerLease && c.live(t) {
			armed[t.l] = true
		}
	}
	for _, l := range c.entries.leases {
		switch {
		case l.stuck && l.Phase() == idle: // its work wakes it
			if l.next != nextNothing || l.Op() != 0 {
				return fmt.Errorf("%s is stuck, %s, and waits for op %d", l.ID(), l.state(), l.Op())
			}
		case l.Phase() == owned && !armed[l]:
			return fmt.Errorf("%s is %s, and its window does not end", l.ID(), l.state())
		case l.Phase() != owned && l.Op() == 0 && !(armed[l] && (l.Phase() == releasing || l.Phase() == idle && l.next != nextNothing)):
			return fmt.Errorf("%s is %s, and has neither a request under way nor a timer", l.ID(), l.state())
		}
	}
	return nil
}
