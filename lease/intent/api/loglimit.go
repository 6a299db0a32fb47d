package api

import (
	"sync"
	"time"
)

// logLimit limits how often the log has an entry. It is safe for concurrent use.
type logLimit struct {
	every time.Duration

	mu     sync.Mutex
	last   time.Time
	silent int // occurrences since then
}

// due counts an occurrence. If a new entry is due, it returns the number of
// occurrences since the last entry.
func (l *logLimit) due(now time.Time) (since int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < l.every {
		l.silent++
		return 0, false
	}
	since, l.silent, l.last = l.silent, 0, now
	return since, true
}
