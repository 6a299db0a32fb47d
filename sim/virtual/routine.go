package virtual

import (
	"iter"
	"slices"
	"time"
)

// routine is code that blocks, run in virtual time: production code of a process, or a client's. It is a coroutine of the loop:
// one runs at a time, while whoever woke it waits, until it parks again. It belongs to a process or, with no node, to nobody.
type routine struct {
	w       *world
	n       *node
	gen     uint32
	f       func(*routine)
	on      *coroutine
	running bool
	dead    bool // its process or the run is over: whatever it waits for fails at once
}

// coroutine runs one routine after another: most are short, and a stack that has grown once serves them all.
type coroutine struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	runs   *routine // nil: none
}

func newCoroutine() *coroutine {
	c := &coroutine{}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			c.runs.f(c.runs)
			c.runs = nil
		}
	})
	return c
}

// goes runs f until it parks.
func (w *world) goes(n *node, f func(*routine)) {
	r := &routine{w: w, n: n, f: f}
	owner := &w.routines
	if n != nil {
		r.gen, owner = n.gen, &n.routines
	}
	if k := len(w.idle); k > 0 {
		r.on, w.idle = w.idle[k-1], w.idle[:k-1]
	} else {
		r.on = newCoroutine()
	}
	r.on.runs = r
	*owner = append(*owner, r)
	r.wake()
}

// wake runs it until it parks again.
func (r *routine) wake() {
	if r.dead || r.on.runs != r {
		return // it is over, and its coroutine may run another
	}
	r.run()
	if r.on.runs == nil {
		r.forget()
	}
}

func (r *routine) run() {
	before := r.w.current
	r.w.current, r.running = r, true
	r.on.resume()
	r.w.current, r.running = before, false
	if r.on.runs == nil {
		r.w.idle = append(r.w.idle, r.on)
	}
}

func (r *routine) forget() {
	owner := &r.w.routines
	if r.n != nil {
		owner = &r.n.routines
	}
	if i := slices.Index(*owner, r); i >= 0 {
		*owner = slices.Delete(*owner, i, i+1)
	}
}

// park returns when somebody wakes it; false: it is to end.
func (r *routine) park() bool {
	if !r.dead {
		r.on.yield(struct{}{})
	}
	return !r.dead
}

// sleep lets time pass on the clock of its process; false: it is to end.
func (r *routine) sleep(d time.Duration) bool {
	if r.dead {
		return false
	}
	if r.n == nil {
		r.w.after(int64(d), r.wake)
	} else {
		r.w.inProcess(r.n, r.n.clock.trueOf(0, int64(d)), r.wake)
	}
	return r.park()
}

// latch is what one routine of a process waits for. What has happened before it waits counts once.
type latch struct {
	on    bool
	who   *routine
	waits int
}

// endlessly is how long a routine waits for what must come.
const endlessly = -1

// set lets who waits go on, or who waits next.
func (l *latch) set() {
	l.on = true
	if r := l.who; r != nil {
		l.who = nil
		r.w.inProcess(r.n, 0, r.wake)
	}
}

// fire is set, and who waits goes on within the event that is handled.
func (l *latch) fire() {
	l.on = true
	if r := l.who; r != nil {
		l.who = nil
		r.wake()
	}
}

// wait returns when l is set, or d later; false: the routine is to end.
func (l *latch) wait(r *routine, d int64) bool {
	if !l.on {
		l.who = r
		l.waits++
		if n := l.waits; d != endlessly {
			r.w.inProcess(r.n, d, func() {
				if l.who == r && l.waits == n {
					l.who = nil
					r.wake()
				}
			})
		}
		if !r.park() {
			return false
		}
	}
	l.on = false
	return true
}

// endAll ends routines: what they wait for fails. One that runs ends by itself.
func endAll(all *[]*routine) {
	for _, r := range slices.Clone(*all) {
		if r.dead = true; !r.running {
			r.run()
		}
	}
	*all = nil
}

// after calls f a while from now, whatever happens to any process.
func (w *world) after(d int64, f func()) {
	w.q.push(event{at: w.t + max(0, d), kind: evCall, arg: w.keep(f)})
}

// inProcess calls f in a process a while from now, if that still runs; once it is thawed, if it is frozen.
func (w *world) inProcess(n *node, d int64, f func()) {
	w.q.push(event{at: w.t + max(0, d), kind: evProcess, node: int32(n.slot - 1), arg: w.keep(f), gen: n.gen})
}

// keep holds f until an event takes it.
func (w *world) keep(f func()) int32 {
	i := slot(&w.calls, &w.vacant)
	w.calls[i] = f
	return i
}

func (w *world) take(i int32) func() {
	f := w.calls[i]
	w.calls[i] = nil
	w.vacant = append(w.vacant, i)
	return f
}
