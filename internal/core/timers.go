package core

import "container/heap"

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

// timerHeap is a min-heap; see container/heap.
type timerHeap struct{ a timers }

type timers []timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timers) Push(t any)        { *h = append(*h, t.(timer)) }

func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = timer{} // do not keep the lease alive
	*h = (*h)[:last]
	return t
}

func (h *timerHeap) push(t timer) { heap.Push(&h.a, t) }
func (h *timerHeap) pop() timer   { return heap.Pop(&h.a).(timer) }

func (h *timerHeap) armLease(l *lease, at Time) {
	l.gen++
	l.due = at
	h.push(timer{at: at, kind: timerLease, gen: l.gen, l: l})
}

func (h *timerHeap) armNode(i int32, gen uint32, at Time) {
	h.push(timer{at: at, kind: timerNode, gen: gen, n: uint64(i)})
}
