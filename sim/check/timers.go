package check

import (
	"slices"
	"sort"
)

type timer struct {
	at  int64
	run func()
}

// at runs f once the history is past t. Events at t itself come first, so that an event at a limit meets it. Timers run in order of time,
// and at one time in order of their creation.
func (w *world) at(t int64, f func()) {
	i := sort.Search(len(w.timers), func(i int) bool { return w.timers[i].at > t })
	w.timers = slices.Insert(w.timers, i, timer{t, f})
}

// elapse runs the timers that are due before t.
func (w *world) elapse(t int64) {
	w.next = t
	for len(w.timers) > 0 && w.timers[0].at < t {
		x := w.timers[0]
		w.timers[0].run = nil // releases the closure
		w.timers = w.timers[1:]
		w.now = max(w.now, x.at)
		x.run()
	}
}
