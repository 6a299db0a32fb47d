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

// fails records a failure and returns the pause before the next request. Pauses double, up to a quarter of the renewal interval, so that
// doubts are settled soon after Redis recovers (I7).
func (r *retries) fails(what string, life, renew time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[string]int{}
	}
	r.failed[what]++
	retry := Retry(life)
	return max(retry, min(retry<<min(r.failed[what]-1, 16), renew/4))
}

func (r *retries) succeeds(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, what)
}

// Retry returns the shortest pause before a retry, in a fleet where a worker is dead after life without a beat.
func Retry(life time.Duration) time.Duration { return max(life/100, 10*time.Millisecond) }
