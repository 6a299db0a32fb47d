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

// timers is a heap, earliest first. A newer gen of the session cancels a timer.
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

func (m *Machine) arm(s *session, at core.Time) {
	s.gen++
	heap.Push(&m.timers, timer{at: at, gen: s.gen, s: s})
}

func (m *Machine) disarm(s *session) { s.gen++ }

// wake handles all due timers. A step calls it before handling its event.
func (m *Machine) wake() {
	for len(m.timers) > 0 && m.timers[0].at <= m.now {
		if t := heap.Pop(&m.timers).(timer); t.gen == t.s.gen {
			m.due(t.s)
		}
	}
}

// Next returns when the machine needs an EvTick; zero: never.
func (m *Machine) Next() core.Time {
	for len(m.timers) > 0 && m.timers[0].gen != m.timers[0].s.gen {
		heap.Pop(&m.timers)
	}
	switch {
	case m.drained:
		return 0
	case len(m.timers) == 0:
		return m.drainBy
	case m.draining:
		return min(m.timers[0].at, m.drainBy)
	}
	return m.timers[0].at
}
