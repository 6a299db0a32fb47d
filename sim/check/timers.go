package check

// timers run what is due, in order of time and, at one time, of asking. It is a binary heap; that of the standard library
// would allocate for each.
type timers []timer

type timer struct {
	at, seq int64
	run     func()
}

func (t *timer) before(o *timer) bool { return t.at < o.at || t.at == o.at && t.seq < o.seq }

func (t *timers) push(x timer) {
	h := append(*t, x)
	*t = h
	i := len(h) - 1
	for i > 0 && x.before(&h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
}

func (t *timers) pop() timer {
	h := *t
	top, last := h[0], h[len(h)-1]
	h[len(h)-1] = timer{} // keeps nothing alive
	h = h[:len(h)-1]
	*t = h
	i := 0
	for c := 1; c < len(h); c = 2*i + 1 {
		if c+1 < len(h) && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&last) {
			break
		}
		h[i] = h[c]
		i = c
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top
}

// at runs f once the history is past t: after every event of that very moment, so that what happens at a limit meets it.
func (w *world) at(t int64, f func()) {
	w.seq++
	w.timers.push(timer{at: t, seq: w.seq, run: f})
}

// elapse runs the timers that are due before t.
func (w *world) elapse(t int64) {
	w.next = t
	for len(w.timers) > 0 && w.timers[0].at < t {
		x := w.timers.pop()
		w.now = max(w.now, x.at)
		x.run()
	}
}
