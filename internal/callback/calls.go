package callback

import (
	"sync"
	"time"
)

// Calls records the running functions of the user, to name one that blocks. A nil *Calls records nothing. Safe for concurrent use.
type Calls struct {
	Panicked func(name string, with any) // called after a panic; with is the panic value, or Exited

	mu      sync.Mutex
	running map[*Running]struct{}
	begun   uint64
}

// Running is a running function.
type Running struct {
	calls    *Calls
	name     string
	patience time.Duration
	since    time.Time
	turn     uint64
}

// Begin records that the function name begins and may take as long as patience. A nil c returns a nil *Running, whose methods do nothing.
func (c *Calls) Begin(name string, patience time.Duration) *Running {
	if c == nil {
		return nil
	}
	r := &Running{calls: c, name: name, patience: patience}
	r.Resume()
	return r
}

// End records that the function has returned, or calls code that is not the user's.
func (r *Running) End() {
	if r != nil {
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		delete(r.calls.running, r)
	}
}

// Resume records that the function goes on after an End.
func (r *Running) Resume() {
	if r == nil {
		return
	}
	c := r.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	r.turn, r.since = c.begun, time.Now()
	if c.running == nil {
		c.running = map[*Running]struct{}{}
	}
	c.running[r] = struct{}{}
}

// Late returns the function that began last among those whose patience had ended at at, and when it began; "" for none. The last one is
// the innermost if functions call each other.
func (c *Calls) Late(at time.Time) (name string, since time.Time) {
	if c == nil {
		return "", time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := uint64(0)
	for r := range c.running {
		if r.turn > last && !at.Before(r.since.Add(r.patience)) {
			name, since, last = r.name, r.since, r.turn
		}
	}
	return name, since
}
