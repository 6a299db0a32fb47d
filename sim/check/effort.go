package check

import (
	"errors"
	"fmt"
)

// ErrLaborious is the condition of a history that takes more to judge than any run's: some rules look at all faults, leases, polls or
// instances that may matter, of which a run has few and a history that somebody made up as many as it likes.
var ErrLaborious = errors.New("check: history takes more to judge than that of any run")

// What a history may have looked at beside its events: so many things in any case, and so many more for each event. Of the storms that
// were measured one of four hours with replicas took the most, 46 for each event.
const (
	looksFree = 500_000_000
	looksEach = 1000
)

// Some things take longer to be looked at than others.
const (
	looksReach  = 4  // a fault of which it is asked when it could delay others, or a lookup or two by name
	looksSorted = 4  // what is brought in order first, or lies in a map
	looksServed = 8  // a poll at the target that another may meet
	looksTimer  = 16 // one that runs
	looksTold   = 64 // a break, or the beginning of what may become one, that is written down
)

// few is up to how many are looked at one after the other, where more are looked up by name.
const few = 8

// effort counts what was looked at.
type effort struct {
	looks   int64
	allowed int64 // beyond looksFree
}

// looks counts what a loop is about to look at, and reports whether it may. Where it may not, nothing that is found counts any more:
// the judge gives up after the event.
func (w *world) looks(n int) bool {
	w.effort.looks += int64(n)
	return w.effort.looks <= w.effort.allowed+looksFree
}

// laborious returns the error of a history that took too much.
func (w *world) laborious() error {
	if w.looks(0) {
		return nil
	}
	return fmt.Errorf("%w: after %d events, at %s, the rules had looked at %d faults, leases, polls and instances, and at most %d and %d for "+
		"each event are allowed", ErrLaborious, w.stats.Events, clock(w.now), w.effort.looks, looksFree, looksEach)
}
