package tend

import (
	"sync"
	"time"
)

// again counts how often in a row something failed: the sessions' writes and attempts at leases, by session, and the reading of the
// bus, "". The zero value has met no failure. Safe for concurrent use.
type again struct {
	mu     sync.Mutex
	failed map[string]int
}

func (a *again) fails(what string) (times int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = map[string]int{}
	}
	a.failed[what]++
	return a.failed[what]
}

func (a *again) succeeds(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, what)
}

// Retry is how soon a machine repeats at the earliest what had no effect, in a fleet where a worker is dead after that life.
func Retry(life time.Duration) time.Duration { return max(life/100, 10*time.Millisecond) }

// Failed takes note that something about a session had no effect, and returns how long to leave it: twice as long as the last time,
// at most a quarter of the renewal interval, so that what is in doubt is settled soon after Redis is itself again (I7).
func (t *Tender) Failed(session string) time.Duration {
	retry := Retry(t.Life)
	return max(retry, min(retry<<min(t.again.fails(session)-1, 16), t.Renew/4))
}

// Answered takes note that Redis has answered something about a session.
func (t *Tender) Answered(session string) { t.again.succeeds(session) }
