package intent

import "github.com/leasestorm/leasestorm/internal/core"

type timer struct {
	gen uint32
	s   *session
}

// timers are the sessions' timers. Each session has at most one: a newer gen of the session cancels an older one.
type timers struct{ core.Timers[timer] }

func (h *timers) set(s *session, at core.Time) {
	h.cancel(s)
	h.Add(at, timer{gen: s.gen, s: s})
}

func (h *timers) cancel(s *session) { s.gen++ }

// first returns when the next timer fires.
func (h *timers) first() (at core.Time, ok bool) {
	for h.Len() > 0 && h.Timers[0].Of.gen != h.Timers[0].Of.s.gen {
		h.Take()
	}
	if h.Len() == 0 {
		return 0, false
	}
	return h.Timers[0].At, true
}

// fire takes a session whose timer is due, nil if there is none.
func (h *timers) fire(now core.Time) *session {
	if at, ok := h.first(); !ok || at > now {
		return nil
	}
	return h.Take().Of.s
}
