package core

import "fmt"

// Promises returns how many sessions are promised, and an error where one of them has an entry of a lease too, or not
// exactly one timer: who heard of it would act on one and not on the other.
func (c *Core) Promises() (int, error) {
	timers := map[uint64]int{}
	for i := range c.timers.a {
		if t := &c.timers.a[i]; (t.kind == timerHeir || t.kind == timerTurn) && c.live(t) {
			timers[t.n]++
		}
	}
	n := 0
	for i := range c.fleet.known {
		if c.fleet.known[i].promised == 0 {
			continue
		}
		n++
		id := c.fleet.sessions.IDs[i]
		if l := c.leases[id]; l != nil {
			return n, fmt.Errorf("%s is promised and has an entry: phase %d, placed %t, wanted %t", id, l.phase, l.place, l.want)
		}
		if timers[uint64(i)] != 1 {
			return n, fmt.Errorf("%s is promised, with %d timers", id, timers[uint64(i)])
		}
	}
	return n, nil
}

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
