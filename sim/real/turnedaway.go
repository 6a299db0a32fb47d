package real

import (
	"sync"
	"time"
)

// exitTurnedAway is the exit code of a node that will not do with the Redis it found (docs/node-protocol.md).
const exitTurnedAway = 3

// refusals is when Redis refuses writes by the plan's doing. The zero value: never yet. Safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	now   int
	ended time.Time // of the last
}

func (r *refusals) begin() {
	r.mu.Lock()
	r.now++
	r.mu.Unlock()
}

func (r *refusals) end() {
	r.mu.Lock()
	r.now--
	r.ended = time.Now()
	r.mu.Unlock()
}

// lately reports whether Redis refuses, or has within the last while.
func (r *refusals) lately(while time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now > 0 || !r.ended.IsZero() && time.Since(r.ended) < while
}

// turnedAway reports whether a process that ended by itself did so because the plan has Redis refuse: it is right not to start on
// an ACL that denies what it needs, and whoever runs it starts it again. Any other end is the node's own, and it stays dead.
func (s *slot) turnedAway(n *node, code int) bool {
	return code == exitTurnedAway && n.instanceID() == "" && s.run.refusals.lately(s.run.cfg.TTL)
}

// startAgain starts the successor of a process that was turned away, as an orchestrator would, unless the slot has one already or
// the run is over. It ends by itself: soon after Redis has stopped refusing, nobody is turned away.
func (s *slot) startAgain(n *node) {
	pause := time.NewTimer(s.run.cfg.TTL / 10)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-s.run.ending:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node != n || s.left {
		return
	}
	next, err := s.spawn()
	if err != nil {
		s.run.notef("%s is not started again: %v", s.name, err)
		return
	}
	next.again = true
}
