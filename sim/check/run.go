package check

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"
)

// run has the facts that all parts of the judge share: the parameters of the run, the allowances, and the time that the history has
// reached.
type run struct {
	Params
	without allowance // taken out by a test; 0: none
	now     int64
	next    int64  // time of the next event
	seen    int32  // number of events, the current one included
	phase   string // "", "start", "storm", "calm", "end"
	calm    int64  // start of the calm; 0: not yet
	end     int64  // start of the end; 0: not yet
	timers  []timer
}

// allows reports whether the allowance is in force. A test disables one allowance at a time.
func (r *run) allows(a allowance) bool { return r.without != a }

type timer struct {
	at  int64
	run func()
}

// at runs f once the history is past t. Events at t itself come first, so that an event at a limit meets it. Timers run in order of time,
// and at one time in order of their creation.
func (r *run) at(t int64, f func()) {
	i := sort.Search(len(r.timers), func(i int) bool { return r.timers[i].at > t })
	r.timers = slices.Insert(r.timers, i, timer{t, f})
}

// elapse runs the timers that are due before t.
func (r *run) elapse(t int64) {
	r.next = t
	for len(r.timers) > 0 && r.timers[0].at < t {
		x := r.timers[0]
		r.timers[0].run = nil // releases the closure
		r.timers = r.timers[1:]
		r.now = max(r.now, x.at)
		x.run()
	}
}

// span is an interval of time, including its ends.
type span struct{ from, to int64 }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// clock formats a time of the history, which counts from the run's start.
func clock(t int64) string { return time.Duration(t).Round(10 * time.Microsecond).String() }

// ms rounds up to milliseconds, so that the smallest excess over 0 shows.
func ms(ns int64) int64 {
	if ns <= 0 {
		return 0
	}
	return (ns + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}
