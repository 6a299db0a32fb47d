// Package ready turns failures beside the leases, of the bus, the registry or a heartbeat, into a lease.Health.
package ready

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
)

// Watch remembers the failure of one kind of request until one succeeds. The zero value is ready. Safe for concurrent use.
type Watch struct {
	// Life is how long a failure counts without another one; 0: until a success.
	Life time.Duration
	// Line, if set, returns the line that grants what an ACL denies.
	Line func() string

	mu        sync.Mutex
	answered  bool // at least once
	err       error
	since, at time.Time
}

// Note takes the outcome of a request.
func (w *Watch) Note(err error) {
	if w.Line != nil && redisstore.Denies(err) {
		err = redisstore.Granting(redisstore.Cause(err), w.Line())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		w.err, w.answered = nil, true
		return
	case w.err == nil || w.over(now):
		w.since = now
	}
	w.err, w.at = redisstore.Cause(err), now
}

// Answered reports whether a request has ever succeeded.
func (w *Watch) Answered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered
}

// Wrote reports that Redis has executed another write, sent at that time; grown: one that took memory. Watch forgets a failure that this
// write disproves.
func (w *Watch) Wrote(sent time.Time, grown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.Before(sent) && (!errors.Is(w.err, redisstore.ErrRefused) || redisstore.Outdated(w.err, grown)) {
		w.err = nil
	}
}

func (w *Watch) over(now time.Time) bool { return w.Life > 0 && now.Sub(w.at) > w.Life }

// Add returns h. If h is OK and the request still fails, Add returns the failure instead. what names the request.
func (w *Watch) Add(h lease.Health, what string) lease.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !h.OK() || w.err == nil || w.over(time.Now()) {
		return h
	}
	h.State, h.Err, h.Since = lease.HealthSilent, w.err, w.since
	if errors.Is(w.err, redisstore.ErrRefused) {
		h.State = lease.HealthRefused
	}
	h.Reason = what + ": " + strings.TrimPrefix(w.err.Error(), redisstore.ErrRefused.Error()+": ")
	return h
}
