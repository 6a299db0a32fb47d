package real

import (
	"sync"
	"time"
)

// exitTurnedAway is the exit code of a node that rejects the Redis it found (docs/node-protocol.md).
const exitTurnedAway = 3

// refusals tracks when the plan makes Redis refuse writes. The zero value has no refusal. Safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	now   int
	ended time.Time
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

func (r *refusals) lately(while time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now > 0 || !r.ended.IsZero() && time.Since(r.ended) < while
}

// turnedAway reports whether a process exited because the plan makes Redis refuse. A node rightly does not start without the rights it
// needs, and an orchestrator would restart it. After any other exit it stays down.
func (s *slot) turnedAway(n *node, code int) bool {
	return code == exitTurnedAway && n.instanceID() == "" && s.run.refusals.lately(s.run.cfg.TTL)
}

// startAgain restarts a slot whose process was turned away, as an orchestrator would. This ends soon after Redis stops refusing.
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
