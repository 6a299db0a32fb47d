package core

import "fmt"

// Entries returns an error where what is known of a session says otherwise of this instance's entry of it than the entry.
func (c *Core) Entries() error {
	for i, k := range c.fleet.known {
		id := c.fleet.sessions.IDs[i]
		l := c.leases[id]
		if k.entered != (l != nil) || k.held != (l != nil && l.pos >= 0) {
			return fmt.Errorf("%s is known as entered %t, held %t; its entry is %+v", id, k.entered, k.held, l)
		}
	}
	for id, l := range c.leases {
		if i := c.fleet.sessions.find(id); l.session != i {
			return fmt.Errorf("the entry of %s names session %d, which is %d", id, l.session, i)
		}
		if (l.pos >= 0) != (l.phase == owned) {
			return fmt.Errorf("%s is in phase %d and stands at %d of what is held", id, l.phase, l.pos)
		}
	}
	return nil
}
