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
	for i, p := range c.fleet.promised {
		if p == 0 {
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
