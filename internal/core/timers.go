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

func (h *timerHeap) armLease(l *lease, at Time) {
	l.gen++
	l.due = at
	h.push(timer{at: at, kind: timerLease, gen: l.gen, l: l})
}

func (h *timerHeap) armNode(i int32, gen uint32, at Time) {
	h.push(timer{at: at, kind: timerNode, gen: gen, n: uint64(i)})
}
