package api

import (
	"sync"
	"time"
)

// told limits how often the log has an entry. It is safe for concurrent use.
type told struct {
	every time.Duration

	mu     sync.Mutex
	last   time.Time
	silent int // occurrences since then
}

// due counts an occurrence. If a new entry is due, it returns how many occurred
// since the last one.
func (t *told) due(now time.Time) (since int, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < t.every {
		t.silent++
		return 0, false
	}
	since, t.silent, t.last = t.silent, 0, now
	return since, true
}
