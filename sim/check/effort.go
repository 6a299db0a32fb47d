package check

import (
	"errors"
	"fmt"
)

// ErrLaborious is the condition of a history that takes more to judge than any run's: some rules look at all faults, leases, polls or
// instances that may matter, of which a run has few and a history that somebody made up as many as it likes.
var ErrLaborious = errors.New("check: history takes more to judge than that of any run")

// What a history may have looked at beside its events: so many things in any case, so many more for each event, and so many for all
// events. A look takes some 10 ns of a core. Of the storms in virtual time that were measured (--seed 1, sizes as they are by default)
// one of an hour with --topology cluster --replicas 2 took the most, 36 for each of its 478,000 events; with --topology sentinel it was 27
// in an hour and 30 in four (2,067,000 events), which is 61 million. At that rate a day of it takes 0.4 billion, and a week 2.6. An hour of
// intents took 9 for each event, five minutes of 100 nodes and 1,000 sessions 3, and ten of 10 and 100 3.
const (
	looksFree   = 200_000_000
	looksEach   = 250
	looksEarned = 2_500_000_000
)

// Some things take longer to be looked at than others.
const (
	looksReach  = 4  // a fault of which it is asked when it could delay others, or a lookup or two by name
	looksSorted = 4  // what is brought in order first, or lies in a map
	looksServed = 8  // a poll at the target that another may meet
	looksTimer  = 16 // one that runs
	looksNoted  = 64 // a break, or the beginning of what may become one, that is written down
)

// few is up to how many are looked at one after the other, where more are looked up by name.
const few = 8

// effort counts what was looked at.
type effort struct {
	looks   int64
	allowed int64 // beyond looksFree, which events earned
}

// earns allows what an event does.
func (w *world) earns() { w.effort.allowed = min(w.effort.allowed+looksEach, looksEarned) }

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
		"each event, %d for all of them, are allowed", ErrLaborious, w.stats.Events, clock(w.now), w.effort.looks, looksFree, looksEach,
		looksEarned)
}
