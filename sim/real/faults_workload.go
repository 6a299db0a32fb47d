package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// writable waits until Redis is not under a fault: what the application writes must be seen when the history says so.
func (s *strike) writable() bool { return s.redis.take(s.ctx.Done()) }

func (s *strike) sessionAdd() {
	if !s.writable() {
		return
	}
	defer s.redis.give()
	s.begin()
	_, err := s.work.add(s.ctx, int(max(1, s.Ms)))
	s.failed(err)
}

// picked chooses the session that is hit.
func (s *strike) picked() bool {
	id, ok := s.work.pick(s.Target)
	if !ok {
		s.skip("there is no such session")
		return false
	}
	s.session = id
	return true
}

func (s *strike) sessionRemove() {
	if !s.writable() {
		return
	}
	defer s.redis.give()
	if s.picked() {
		s.begin()
		s.failed(s.work.change(s.ctx, s.session, history.SessionRemoved))
	}
}

func (s *strike) sessionPause() {
	if !s.sessionPaused() {
		return
	}
	s.last()
	if s.writable() {
		s.failed(s.work.change(s.ctx, s.session, history.SessionResumed))
		s.redis.give()
	}
	s.end()
}

func (s *strike) sessionPaused() bool {
	if !s.writable() {
		return false
	}
	defer s.redis.give()
	if !s.picked() {
		return false
	}
	s.begin()
	s.failed(s.work.change(s.ctx, s.session, history.SessionPaused))
	return true
}

func (s *strike) pollSlow() {
	if !s.picked() {
		return
	}
	s.begin()
	s.target.slow(s.session, time.Duration(s.Ms)*time.Millisecond)
	s.last()
	s.target.slow(s.session, 0)
	s.end()
}

func (s *strike) pollHang() {
	if !s.picked() {
		return
	}
	s.begin()
	release := s.target.hang(s.session)
	s.last()
	release()
	s.end()
}
