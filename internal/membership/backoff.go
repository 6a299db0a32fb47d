package membership

import (
	"sync"
	"time"
)

// retries counts consecutive failures: by session for writes and acquisitions, and under "" for fetches. It is safe for concurrent use.
type retries struct {
	mu     sync.Mutex
	failed map[string]int
}

func (r *retries) fails(what string) (times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[string]int{}
	}
	r.failed[what]++
	return r.failed[what]
}

func (r *retries) succeeds(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, what)
}

// Retry returns the shortest pause before a retry, in a fleet where a worker is dead after life without a beat.
func Retry(life time.Duration) time.Duration { return max(life/100, 10*time.Millisecond) }

// Failed records a failed request for a session and returns the pause before the next. Pauses double, up to a quarter of the renewal
// interval, so that doubts are settled soon after Redis recovers (I7).
func (m *Member) Failed(session string) time.Duration {
	retry := Retry(m.Life)
	return max(retry, min(retry<<min(m.retries.fails(session)-1, 16), m.Renew/4))
}

// Answered records that Redis has answered a request for a session.
func (m *Member) Answered(session string) { m.retries.succeeds(session) }
