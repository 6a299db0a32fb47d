package core

// timerKind says what a timer wakes.
type timerKind uint8

const (
	timerLease timerKind = iota // lease l, if gen is still its own
	timerNode                   // node n, if gen is still its own
	timerOp                     // op n, if it is still in flight
)

// timer is one entry of the heap. Timers are cancelled by making them stale (a newer gen, an op that ended), never by
// searching the heap.
type timer struct {
	at   Time
	kind timerKind
	gen  uint32
	n    uint64
	l    *lease
}

// timerHeap is a 4-ary min-heap: shallower than a binary one and kinder to the cache, which is what counts when virtual
// time moves thousands of times faster than real time.
type timerHeap struct{ a []timer }

func (h *timerHeap) push(t timer) {
	h.a = append(h.a, t)
	i := len(h.a) - 1
	for i > 0 {
		p := (i - 1) / 4
		if h.a[p].at <= t.at {
			break
		}
		h.a[i] = h.a[p]
		i = p
	}
	h.a[i] = t
}

func (h *timerHeap) pop() timer {
	top := h.a[0]
	last := h.a[len(h.a)-1]
	h.a[len(h.a)-1] = timer{} // do not keep the lease alive
	h.a = h.a[:len(h.a)-1]
	n := len(h.a)
	if n == 0 {
		return top
	}
	i := 0
	for {
		c := 4*i + 1
		if c >= n {
			break
		}
		m := c
		for j := c + 1; j < min(c+4, n); j++ {
			if h.a[j].at < h.a[m].at {
				m = j
			}
		}
		if last.at <= h.a[m].at {
			break
		}
		h.a[i] = h.a[m]
		i = m
	}
	h.a[i] = last
	return top
}

// live reports whether t still means something.
func (c *Core) live(t *timer) bool {
	switch t.kind {
	case timerLease:
		return t.l.gen == t.gen
	case timerNode:
		return c.registry.nodes[t.n].gen == t.gen
	default:
		return c.ops.find(t.n) != nil
	}
}

// armLease makes l wake at at, instead of whenever it would have.
func (c *Core) armLease(l *lease, at Time) {
	l.gen++
	l.due = at
	c.timers.push(timer{at: at, kind: timerLease, gen: l.gen, l: l})
}

func (c *Core) armNode(i int32, gen uint32, at Time) {
	c.timers.push(timer{at: at, kind: timerNode, gen: gen, n: uint64(i)})
}

// runTimers wakes everything that is due. It runs before anything else in a step, so that an answer which comes at the
// very instant a window ends finds the window closed.
func (c *Core) runTimers() {
	for len(c.timers.a) > 0 && c.timers.a[0].at <= c.now.Mono {
		t := c.timers.pop()
		if !c.live(&t) {
			continue
		}
		switch t.kind {
		case timerLease:
			c.wakeLease(t.l, t.at)
		case timerNode:
			c.registry.due(int32(t.n))
		case timerOp:
			c.timeout(t.n)
		}
	}
	c.runIntervals()
}

// Next returns when the core wants EvTick: the earliest instant at which it would do something. Zero: never.
func (c *Core) Next() Time { return c.next }

func (c *Core) earliest() Time {
	for len(c.timers.a) > 0 && !c.live(&c.timers.a[0]) {
		c.timers.pop()
	}
	var next Time
	earlier := func(t Time) {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	if len(c.timers.a) > 0 {
		earlier(c.timers.a[0].at)
	}
	earlier(c.nextRenew)
	earlier(c.fleet.next)
	earlier(c.nextProbe)
	earlier(c.nextHeard)
	earlier(c.registry.own.rejoin)
	if c.slowed > c.now.Mono {
		for k := range c.paces {
			if c.paced(OpKind(k)) && c.queued(OpKind(k)) {
				earlier(c.paces[k].until)
			}
		}
	}
	return next
}

// queued reports whether a request of kind waits for its pace.
func (c *Core) queued(kind OpKind) bool {
	q := &c.queue
	switch kind {
	case OpBeat:
		return c.registry.own.beat
	case OpLeave:
		return c.registry.own.leave
	case OpLook:
		return c.fleet.due
	case OpNodes:
		return len(c.registry.unread) > 0
	case OpSupersede:
		return c.epoch.rejected != ""
	default:
		return len(q.leases[kind]) > 0
	}
}
