package lease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
)

// Lease is one term of a lease: one unbroken ownership by this instance. A
// lease that is lost and acquired again is another Lease with a higher fence
// (G3). It is safe for concurrent use.
type Lease struct {
	in         *instance
	name       string
	fence      int64
	acquiredAt core.Time

	// A policy.Belief. The loop stores wall before mono, and readers load mono before wall: a reader who sees a longer mono sees a wall
	// at least as new.
	mono, wall atomic.Int64
	until      atomic.Int64 // core.Time: end of the trust window
	renewedAt  atomic.Int64 // core.Time of the last renewal; 0: none
	renewals   atomic.Int64 // successful ones
	yielding   atomic.Int32 // number of the pending yield: its work is ending, and no new work begins; 0: none

	given   bool  // loop only: a caller or a listener of the keeper will release it
	callers int32 // loop only: callers that received it and have not given up since
	yields  int32 // loop only: number of yields so far

	mu     sync.Mutex
	ending *ending // nil until the term is over or a context ends with it: most terms have none
}

// ending is the end of a term.
type ending struct {
	err   error           // why the term is over; nil before
	own   context.Context // of Lease.Context
	under []under         // contexts that end with the term
}

type under struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// Name returns the lease's name; with a Manager, the session ID.
func (h *Lease) Name() string { return h.name }

// Fence returns the number to send with everything done under the lease. It is
// larger than the fence of every earlier term.
func (h *Lease) Fence() int64 { return h.fence }

// Valid reports whether the lease is held now, from local memory. It is false
// while a renewal is overdue (and may become true again), and forever once the
// term is over.
func (h *Lease) Valid() bool {
	return h.belief().Holds(h.in.now())
}

// belief returns the time until which work may begin.
func (h *Lease) belief() policy.Belief {
	mono := h.mono.Load()
	return policy.Belief{Mono: core.Time(mono), Wall: h.wall.Load()}
}

// Deadline returns the current end of the trust window. ok is false if the
// instance does not believe in the lease now. Each renewal moves the deadline.
// While a renewal is overdue, ok is false although the deadline has not passed.
func (h *Lease) Deadline() (deadline time.Time, ok bool) {
	if !h.Valid() {
		return time.Time{}, false
	}
	return h.in.time(core.Time(h.until.Load())), true
}

// believe runs in the loop only.
func (h *Lease) believe(b policy.Belief) {
	h.wall.Store(b.Wall)
	h.mono.Store(int64(b.Mono))
}

// Context ends with the term: when the trust window ends, when the lease is
// lost or released, and when the instance stops. context.Cause is ErrLost (with
// the reason if a renewal failed) or ErrStopped. A renewal that is merely late
// does not end the context.
//
// A goroutine ends the context, so work in a process that was frozen or starved
// may go on for a moment. Check Valid just before anything that must not happen
// twice, and send the fence with it.
func (h *Lease) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.end()
	if e.own == nil {
		ctx, end := context.WithCancelCause(context.Background())
		e.own = ctx
		if over := e.ends(under{ctx, end}); over != nil {
			end(over)
		}
	}
	return e.own
}

// end returns h.ending. The caller holds mu.
func (h *Lease) end() *ending {
	if h.ending == nil {
		h.ending = &ending{}
	}
	return h.ending
}

// withHolds returns a context that ends when ctx ends, when the first of holds ends, or when end is called. It needs one context
// for any number of holds.
func withHolds(ctx context.Context, holds ...*Lease) (_ context.Context, end context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	holds = slices.Clone(holds) // the caller may change its slice
	for _, h := range holds {
		h.mu.Lock()
		over := h.end().ends(under{ctx, cancel})
		h.mu.Unlock()
		if over != nil {
			cancel(over)
		}
	}
	return ctx, func() {
		cancel(nil)
		for _, h := range holds {
			h.forget(ctx)
		}
	}
}

// ends makes the term end u, or returns why the term is over. When the slice is full, it drops contexts that have ended already. The
// caller holds mu.
func (e *ending) ends(u under) (over error) {
	if e.err != nil {
		return e.err
	}
	if len(e.under) == cap(e.under) {
		e.under = slices.DeleteFunc(e.under, func(u under) bool { return u.ctx.Err() != nil })
		e.under = slices.Grow(e.under, len(e.under))
	}
	e.under = append(e.under, u)
	return nil
}

func (h *Lease) forget(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending.under = slices.DeleteFunc(h.ending.under, func(u under) bool { return u.ctx == ctx })
}

// Release releases the lease and waits until Redis has confirmed the release.
// Call it once the work has returned. A second Release, or the Release of a
// lost lease, does nothing. OpError.Unknown: Redis has not confirmed the
// release. It is retried until the lease has expired.
func (h *Lease) Release(ctx context.Context) error {
	return opError("release", h.name, h.in.release(ctx, h.name, h))
}

// Drop releases the lease without waiting. It may be called from Config.Notify.
// Leases dropped at about the same time are released together.
func (h *Lease) Drop() { h.in.inbox.put(message{drop: h}) }

// asked reports whether a yield is pending.
func (h *Lease) asked() bool { return h.yielding.Load() != 0 }

func (h *Lease) stuck(kind core.EventKind) core.Event {
	return core.Event{Kind: kind, ID: h.name, Fence: h.fence}
}

// finish ends the contexts of the term. Only the loop calls it.
func (h *Lease) finish(err error) {
	h.mu.Lock()
	e := h.end()
	if e.err == nil {
		e.err = err
	}
	err = e.err
	under := e.under
	e.under = nil
	h.mu.Unlock()
	for _, u := range under { // without the lock: ending a context may run code of the caller's
		u.end(err)
	}
}

func (h *Lease) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ending != nil && h.ending.err != nil
}

func (h *Lease) lostError(reason string) error {
	return fmt.Errorf("%w: %q, fence %d: %s", ErrLost, h.name, h.fence, reason)
}
