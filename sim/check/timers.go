package check

import "container/heap"

// timers run in order of time, and at one time in order of their creation.
type timers []timer

type timer struct {
	at, seq int64
	run     func()
}

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }

func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = timer{} // releases the closure
	*t = (*t)[:last]
	return x
}

// at runs f once the history is past t. Events at t itself come first, so that an event at a limit meets it.
func (w *world) at(t int64, f func()) {
	w.seq++
	heap.Push(&w.timers, timer{at: t, seq: w.seq, run: f})
}

// elapse runs the timers that are due before t.
func (w *world) elapse(t int64) {
	w.next = t
	for len(w.timers) > 0 && w.timers[0].at < t {
		x := heap.Pop(&w.timers).(timer)
		w.now = max(w.now, x.at)
		x.run()
	}
}
