package virtual

import (
	"iter"
	"slices"
	"time"
)

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

func (w *world) goes(n *node, f func(*routine)) {
	r := &routine{w: w, n: n, f: f, all: &w.routines}
	if n != nil {
		r.all = &n.routines
	}
	if k := len(w.idle); k > 0 {
		r.on, w.idle = w.idle[k-1], w.idle[:k-1]
	} else {
		r.on = newCoroutine()
	}
	r.on.runs = r
	*r.all = append(*r.all, r)
	r.wake()
}

func (r *routine) wake() {
	if r.dead || r.on.runs != r {
		return // the routine is over, and its coroutine may run another
	}
	r.run()
	if r.on.runs == nil {
		*r.all = slices.DeleteFunc(*r.all, func(o *routine) bool { return o == r })
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

// park waits for wake. False: the routine must end.
func (r *routine) park() bool {
	if !r.dead {
		r.on.yield(struct{}{})
	}
	return !r.dead
}

// sleep waits on the process' clock. False: the routine must end.
func (r *routine) sleep(d time.Duration) bool {
	if r.dead {
		return false
	}
	if r.n == nil {
		r.w.after(int64(d), r.wake)
	} else {
		r.w.inProcess(r.n, r.n.clock.TrueOf(0, int64(d)), r.wake)
	}
	return r.park()
}

const endlessly = -1

func (l *latch) set() {
	l.on = true
	if r := l.who; r != nil {
		l.who = nil
		r.w.inProcess(r.n, 0, r.wake)
	}
}

// fire is set, but runs the waiter at once.
func (l *latch) fire() {
	l.on = true
	if r := l.who; r != nil {
		l.who = nil
		r.wake()
	}
}

// wait returns when l is set, or after d. False: the routine must end.
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

// endAll ends routines by failing their waits. A running one ends by itself.
func endAll(all *[]*routine) {
	for _, r := range slices.Clone(*all) {
		if r.dead = true; !r.running {
			r.run()
		}
	}
	*all = nil
}
