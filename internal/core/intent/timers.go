package intent

import "github.com/leasestorm/leasestorm/internal/core"

// timer wakes s, if gen is still its own.
type timer struct {
	at  core.Time
	gen uint32
	s   *session
}

// timers is a binary min-heap. Timers are cancelled by making them stale.
type timers []timer

func (h *timers) push(t timer) {
	a := append(*h, t)
	for i := len(a) - 1; i > 0; {
		p := (i - 1) / 2
		if a[p].at <= a[i].at {
			break
		}
		a[p], a[i] = a[i], a[p]
		i = p
	}
	*h = a
}

func (h *timers) pop() timer {
	a := *h
	top := a[0]
	n := len(a) - 1
	a[0], a[n] = a[n], timer{}
	a = a[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && a[c+1].at < a[c].at {
			c++
		}
		if a[i].at <= a[c].at {
			break
		}
		a[i], a[c] = a[c], a[i]
		i = c
	}
	*h = a
	return top
}

// arm makes s wake at at, instead of whenever it would have.
func (m *Machine) arm(s *session, at core.Time) {
	s.gen++
	m.timers.push(timer{at: at, gen: s.gen, s: s})
}

// disarm makes s sleep on.
func (m *Machine) disarm(s *session) { s.gen++ }

// wake runs before anything else in a step.
func (m *Machine) wake() {
	for len(m.timers) > 0 && m.timers[0].at <= m.now {
		t := m.timers.pop()
		if t.gen == t.s.gen {
			m.due(t.s)
		}
	}
}

// Next returns when the machine wants EvTick; zero: never.
func (m *Machine) Next() core.Time {
	for len(m.timers) > 0 && m.timers[0].gen != m.timers[0].s.gen {
		m.timers.pop()
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
