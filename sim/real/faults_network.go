package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// effect is what the fault does to the target's line.
func (s *strike) effect() effect {
	hold := network{hold: true}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	both := network{}
	switch s.Kind {
	case fault.Cut, fault.Flapping:
		return effect{cut: true}
	case fault.RequestsLost:
		return effect{up: hold}
	case fault.RepliesLost:
		return effect{down: hold}
	case fault.BlackHole:
		both = hold
	case fault.Latency:
		both = network{latency: ms(s.Ms), jitter: ms(min(s.Jitter, s.Ms))}
	case fault.Bandwidth:
		both = network{rate: max(1, s.KBps) * 1024}
	case fault.Fragments:
		both = network{fragments: true}
	}
	return effect{up: both, down: both}
}

func (s *strike) network() {
	at := s.slot(s.Target)
	if at == nil {
		s.skip("there is no such node")
		return
	}
	s.begin()
	s.failed(at.way.apply(s.n, s.effect()))
	s.last()
	s.failed(at.way.heal(s.n))
	s.end()
}

// flapping cuts and heals every Ms.
func (s *strike) flapping() {
	at := s.slot(s.Target)
	if at == nil {
		s.skip("there is no such node")
		return
	}
	s.begin()
	every := max(time.Duration(s.Ms)*time.Millisecond, 10*time.Millisecond)
	end := time.Now().Add(s.For)
	for left := s.For; left > 0; left = time.Until(end) {
		s.failed(at.way.apply(s.n, s.effect()))
		more := s.pause(min(every, left))
		s.failed(at.way.heal(s.n))
		if !more || !s.pause(max(0, min(every, time.Until(end)))) {
			break
		}
	}
	s.end()
}
