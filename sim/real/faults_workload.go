package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

func (s *strike) sessionAdd() {
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
	if s.picked() {
		s.begin()
		s.failed(s.work.change(s.ctx, s.session, history.SessionRemoved))
	}
}

func (s *strike) sessionPause() {
	if !s.picked() {
		return
	}
	s.begin()
	s.failed(s.work.change(s.ctx, s.session, history.SessionPaused))
	s.last()
	s.failed(s.work.change(s.ctx, s.session, history.SessionResumed))
	s.end()
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
