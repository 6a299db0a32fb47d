package virtual

import (
	"iter"
	"slices"
	"time"
)

// routines are the blocking code of a run in virtual time.
type routines struct {
	*timeline
	all     []*routine   // of no process
	idle    []*coroutine // without a routine
	current *routine     // the running routine
}

// routine runs blocking code of a process or a client in virtual time. wake returns when the routine parks again.
type routine struct {
	rs      *routines
	n       *node       // nil: it is of no process
	all     *[]*routine // list that it is in
	f       func(*routine)
	on      *coroutine
	running bool
	dead    bool // its process or the run is over, so every wait fails at once
}

// coroutine runs one routine after another. Most are short and can share a stack that has grown.
type coroutine struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	runs   *routine // nil: idle
}

// latch is a condition that one routine of a process waits for. A set before the wait counts once.
type latch struct {
	on    bool
	who   *routine
	waits int
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

func (rs *routines) begin(n *node, f func(*routine)) {
	r := &routine{rs: rs, n: n, f: f, all: &rs.all}
	if n != nil {
		r.all = &n.routines
	}
	if k := len(rs.idle); k > 0 {
		r.on, rs.idle = rs.idle[k-1], rs.idle[:k-1]
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
	before := r.rs.current
	r.rs.current, r.running = r, true
	r.on.resume()
	r.rs.current, r.running = before, false
	if r.on.runs == nil {
		r.rs.idle = append(r.rs.idle, r.on)
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
		r.rs.after(int64(d), r.wake)
	} else {
		r.n.inProcess(r.n.clock.TrueOf(0, int64(d)), r.wake)
	}
	return r.park()
}

const endlessly = -1

func (l *latch) set() {
	l.on = true
	if r := l.who; r != nil {
		l.who = nil
		r.n.inProcess(0, r.wake)
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
			r.n.inProcess(d, func() {
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

func (rs *routines) end() {
	endAll(&rs.all)
	for _, c := range rs.idle {
		c.stop()
	}
	rs.idle = nil
}
