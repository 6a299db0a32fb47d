// Package loop has the clocks and the event queue of a run in virtual time.
package loop

// Event holds no pointer, so that two fit a cache line and the garbage collector ignores the queue.
type Event struct {
	At   int64  // true time
	seq  uint64 // order among equal times
	Kind uint8
	Node int32
	Arg  int32
	Gen  uint32 // of what the event concerns; the receiver drops an event of an old generation
}

// Queue orders events by time. A 4-ary heap holds those of the current slot: it has half a binary heap's depth, and children share a
// cache line or two. Later ones wait unordered in the ring of slots, because most events of a large fleet are polls due in seconds.
type Queue struct {
	heap []Event
	ring [slots][]Event
	slot int64 // current: time >> slotBits
	seq  uint64
}

// The ring reaches 34 s ahead. Later events wait in its farthest slot and are placed again from there.
const (
	slotBits = 26 // of ns: 67 ms
	slots    = 512
	slotMax  = 1 << 11 // capacity that a slot keeps, in events
)

func before(a, b *Event) bool {
	if a.At != b.At {
		return a.At < b.At
	}
	return a.seq < b.seq
}

// Push adds e. Events of one instant leave in the order of their pushes.
func (q *Queue) Push(e Event) {
	q.seq++
	e.seq = q.seq
	q.place(&e)
}

func (q *Queue) place(e *Event) {
	if e.At>>slotBits > q.slot {
		q.putOff(e)
	} else {
		q.sift(e)
	}
}

func (q *Queue) putOff(e *Event) {
	i := min(e.At>>slotBits, q.slot+slots-1) % slots
	if q.ring[i] == nil {
		q.ring[i] = make([]Event, 0, 8) // enough for ten instances with a hundred sessions
	}
	q.ring[i] = append(q.ring[i], *e)
}

func (q *Queue) sift(e *Event) {
	q.heap = append(q.heap, *e)
	h := q.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !before(e, &h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = *e
}

// refill advances slots until an event is due.
func (q *Queue) refill() {
	for len(q.heap) == 0 {
		q.slot++
		i := q.slot % slots
		due := q.ring[i]
		if q.ring[i] = due[:0]; cap(due) > slotMax {
			q.ring[i] = nil // all instances start within one slot, so free the memory of that peak
		}
		for k := range due {
			q.place(&due[k])
		}
	}
}

// Pop removes and returns the earliest event. The queue must not be empty.
func (q *Queue) Pop() Event {
	q.refill()
	h := q.heap
	top := h[0]
	last := h[len(h)-1]
	h = h[:len(h)-1]
	q.heap = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if before(&h[c], &h[least]) {
				least = c
			}
		}
		if !before(&h[least], &last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return top
}
