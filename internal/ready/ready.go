// Package ready makes a lease.Health of what went wrong beside the leases: on the bus, in the registry, with a heartbeat.
package ready

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// Watch remembers what goes wrong with one kind of request, until one succeeds. The zero value is ready; safe for concurrent
// use.
type Watch struct {
	// Life is how long a failure counts without being met again; 0: until a success.
	Life time.Duration

	mu        sync.Mutex
	err       error
	since, at time.Time
}

// Note takes the outcome of a request.
func (w *Watch) Note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		w.err = nil
		return
	case w.err == nil || w.over(now):
		w.since = now
	}
	w.err, w.at = redisstore.Cause(err), now
}

func (w *Watch) over(now time.Time) bool { return w.Life > 0 && now.Sub(w.at) > w.Life }

// Add returns h, or if that is OK and what failed still fails, why. what names it.
func (w *Watch) Add(h lease.Health, what string) lease.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !h.OK() || w.err == nil || w.over(time.Now()) {
		return h
	}
	h.State, h.Err, h.Since = lease.HealthSilent, w.err, w.since
	if errors.Is(w.err, lease.ErrRefused) {
		h.State = lease.HealthRefused
	}
	h.Reason = what + ": " + strings.TrimPrefix(w.err.Error(), lease.ErrRefused.Error()+": ")
	return h
}
