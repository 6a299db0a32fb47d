package membership

import (
	"sync"
	"time"
)

// retries counts how often in a row something failed: the sessions' writes and attempts at leases, by session, and the reading of the
// bus, "". The zero value has met no failure. Safe for concurrent use.
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

// Retry is how soon a machine repeats at the earliest what had no effect, in a fleet where a worker is dead after that life.
func Retry(life time.Duration) time.Duration { return max(life/100, 10*time.Millisecond) }

// Failed takes note that something about a session had no effect, and returns how long to leave it: twice as long as the last time,
// at most a quarter of the renewal interval, so that what is in doubt is settled soon after Redis is itself again (I7).
func (m *Member) Failed(session string) time.Duration {
	retry := Retry(m.Life)
	return max(retry, min(retry<<min(m.retries.fails(session)-1, 16), m.Renew/4))
}

// Answered takes note that Redis has answered something about a session.
func (m *Member) Answered(session string) { m.retries.succeeds(session) }
