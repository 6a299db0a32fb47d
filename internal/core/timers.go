package core

import (
	"container/heap"
	"slices"
)

// Timers is a min-heap by Timer.At; see container/heap. Use Add and Take.
type Timers[T any] []Timer[T]

// Timer is an entry of Timers.
type Timer[T any] struct {
	At Time
	Of T
}

func (h Timers[T]) Len() int           { return len(h) }
func (h Timers[T]) Less(i, j int) bool { return h[i].At < h[j].At }
func (h Timers[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *Timers[T]) Push(t any) { *h = append(*h, t.(Timer[T])) }

// Pop implements heap.Interface.
func (h *Timers[T]) Pop() any {
	t := (*h)[h.Len()-1]
	*h = slices.Delete(*h, h.Len()-1, h.Len()) // clears the entry, too
	return t
}

// Add adds an entry.
func (h *Timers[T]) Add(at Time, of T) { heap.Push(h, Timer[T]{at, of}) }

// Take removes and returns the earliest entry.
func (h *Timers[T]) Take() Timer[T] { return heap.Pop(h).(Timer[T]) }

type timerKind uint8

const (
	timerLease timerKind = iota // lease l, if gen is still its gen
	timerNode                   // node n, if gen is still its gen
	timerOp                     // op n, if it is still under way
)

// timer says what a timer is of. A newer gen, or the end of the op, cancels it; its entry stays in the heap until it is due.
type timer struct {
	kind timerKind
	gen  uint32
	n    uint64
	l    *lease
}

type timerHeap struct{ Timers[timer] }

func (h *timerHeap) armLease(l *lease, at Time) {
	l.gen++
	h.Add(at, timer{kind: timerLease, gen: l.gen, l: l})
}
