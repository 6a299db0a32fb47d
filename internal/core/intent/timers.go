package intent

import (
	"container/heap"

	"github.com/leasestorm/leasestorm/internal/core"
)

type timer struct {
	at  core.Time
	gen uint32
	s   *session
}

// timers is a heap, earliest first. Each session has at most one timer: a newer gen of the session cancels an older one.
type timers []timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timers) Push(t any)        { *h = append(*h, t.(timer)) }

func (h *timers) Pop() any {
	n := len(*h) - 1
	t := (*h)[n]
	(*h)[n] = timer{} // do not keep the session alive
	*h = (*h)[:n]
	return t
}

func (h *timers) set(s *session, at core.Time) {
	h.cancel(s)
	heap.Push(h, timer{at: at, gen: s.gen, s: s})
}

func (h *timers) cancel(s *session) { s.gen++ }

// first returns when the next timer fires.
func (h *timers) first() (at core.Time, ok bool) {
	for len(*h) > 0 && (*h)[0].gen != (*h)[0].s.gen {
		heap.Pop(h)
	}
	if len(*h) == 0 {
		return 0, false
	}
	return (*h)[0].at, true
}

// fire takes a session whose timer is due, nil if there is none.
func (h *timers) fire(now core.Time) *session {
	if at, ok := h.first(); !ok || at > now {
		return nil
	}
	return heap.Pop(h).(timer).s
}
