package core

type timerKind uint8

const (
	timerLease timerKind = iota // lease l, if gen is still its gen
	timerNode                   // node n, if gen is still its gen
	timerOp                     // op n, if it is still under way
)

// timer is one entry of the heap. A newer gen, or the end of the op, cancels a timer; it stays in the heap until it is due.
type timer struct {
	at   Time
	kind timerKind
	gen  uint32
	n    uint64
	l    *lease
}

// timerHeap is a 4-ary min-heap. It is shallower than a binary one and uses the CPU cache better, which makes virtual time fast.
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

func (c *Core) live(t *timer) bool {
	switch t.kind {
	case timerLease:
		return t.l.gen == t.gen
	case timerNode:
		return c.members.Armed(int32(t.n), t.gen)
	default:
		return c.ops.find(t.n) != nil
	}
}

func (c *Core) armLease(l *lease, at Time) {
	l.gen++
	l.due = at
	c.timers.push(timer{at: at, kind: timerLease, gen: l.gen, l: l})
}

func (c *Core) armNode(i int32, gen uint32, at Time) {
	c.timers.push(timer{at: at, kind: timerNode, gen: gen, n: uint64(i)})
}

// runTimers handles all due timers. A step calls it before handling its event: an answer that arrives at the end of a window finds the
// window closed.
func (c *Core) runTimers() {
	for len(c.timers.a) > 0 && c.timers.a[0].at <= c.k.Now() {
		t := c.timers.pop()
		if !c.live(&t) {
			continue
		}
		switch t.kind {
		case timerLease:
			c.wakeLease(t.l, t.at)
		case timerNode:
			c.members.Due(int32(t.n))
		case timerOp:
			c.timeout(t.n)
		}
	}
	c.runIntervals()
}

// Next returns when the core needs an EvTick; zero: never.
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
	earlier(c.table.Next())
	earlier(c.nextProbe)
	earlier(c.nextHeard)
	earlier(c.own.Rejoin())
	if c.slowed > c.k.Now() {
		for k := range c.paces {
			if c.paced(OpKind(k)) && c.queued(OpKind(k)) {
				earlier(c.paces[k].until)
			}
		}
	}
	return next
}

func (c *Core) queued(kind OpKind) bool {
	q := &c.queue
	switch kind {
	case OpBeat:
		return c.own.BeatDue()
	case OpLeave:
		return c.own.LeaveDue()
	case OpLook:
		return c.table.Due()
	case OpNodes:
		return c.members.Reading()
	case OpSupersede:
		return c.k.Supersedes()
	default:
		return len(q.leases[kind]) > 0
	}
}
