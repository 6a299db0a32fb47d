package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
)

// callers are the calls of Acquire and Release, and the standing requests, of an instance. The loop owns its fields.
type callers struct {
	*instance
	table     *table
	diagnosis *diagnosis
	waiters   policy.Waiters[*waiter, *refusal]
	releases  policy.Releases[chan error]

	step  func(core.Event) // passes an event to the core now
	later func(core.Event) // passes it once the current step is over
}

// waiter is one call of Acquire or TryAcquire.
type waiter struct {
	wait bool
	ttl  time.Duration // of the term; 0: Config.TTL
	done bool
	hold *Lease     // its result
	ch   chan error // buffered: the loop never waits

	refused atomic.Pointer[refusal] // the last refusal while it waits; read when its context ends, also while the loop is stuck
}

type refusal struct {
	err error
	at  time.Time
}

func refusedNow(err error) *refusal { return &refusal{err: err, at: time.Now()} }

// present returns the refusal as of now: the holder's remaining TTL is reduced by the time since the refusal. If that TTL is over,
// the holder must have renewed, and the remaining time is unknown.
func (r *refusal) present() error {
	var held *heldError
	if !errors.As(r.err, &held) || held.ttl <= 0 {
		return r.err
	}
	now := *held
	now.ttl = max(0, held.ttl-time.Since(r.at))
	return &now
}

func (c *callers) acquire(ctx context.Context, name string, wait bool, opts ...Option) (*Lease, error) {
	if err := c.running(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{wait: wait, ch: make(chan error, 1)}
	for _, opt := range opts {
		w.ttl = opt.ttl
	}
	if err := c.cfg.checkShorter(w.ttl); err != nil {
		return nil, err
	}
	c.post(func() { c.want(name, w) })
	select {
	case err := <-w.ch:
		return w.hold, c.granting(err, name)
	case <-ctx.Done():
		c.post(func() { c.unwant(name, w) })
		return nil, c.gaveUp(ctx, name, w)
	case <-c.life.Done():
		return nil, ErrStopped
	}
}

// gaveUp is the error of a call whose context ended. It has the cause of the context and the last answer. While Redis is silent,
// that answer is out of date, and the last failure replaces it.
func (c *callers) gaveUp(ctx context.Context, name string, w *waiter) error {
	last := errUnknown
	if r := w.refused.Load(); r != nil && !c.diagnosis.silent() {
		last = r.present()
	} else if f := c.diagnosis.failure(core.OpAcquire); f.err != nil {
		last = f.noResult(core.OpAcquire, "acquire", name, "")
	}
	return fmt.Errorf("lease %q: gave up waiting: %w; %w (if it is acquired nevertheless, it is released)", name,
		context.Cause(ctx), last)
}

// want adds a call. It and all functions below run in the loop.
func (c *callers) want(name string, w *waiter) {
	if c.draining {
		w.ch <- ErrStopped
		return
	}
	h := c.table.get(name)
	switch {
	case h == nil || c.keeper:
		c.take(name, h, c.waiters.Want(name, w, w.wait, h != nil), c.step)
	case h.Valid() && !h.asked():
		w.answer(h, nil)
	default:
		why := c.diagnosis.failure(core.OpRenew)
		w.answer(nil, why.noResult(core.OpRenew, "renewal", name, "this instance holds the lease, but a renewal failed"))
	}
}

// take carries out a reply. h is the term that the callers receive; next gets the events for the core.
func (c *callers) take(name string, h *Lease, t policy.Reply[*waiter, *refusal], next func(core.Event)) {
	for _, to := range t.Heard {
		why := t.Why
		if to.Word == policy.Held {
			why = refusedNow(c.heldHere(h))
		}
		switch {
		case to.Word == policy.Won:
			to.Caller.answer(h, nil)
		case to.Ends:
			to.Caller.answer(nil, why.present())
		default:
			to.Caller.refused.Store(why)
		}
	}
	if t.Want {
		next(core.Event{Kind: core.EvWant, ID: name, Wait: t.Wait, TTL: int64(c.ttlOf(name))})
	}
	if t.Drop {
		next(core.Event{Kind: core.EvDrop, ID: name, Cause: core.CauseRequested})
	}
}

// ttlOf returns the TTL of the next term of a lease: the TTL that the first waiting caller requested.
func (c *callers) ttlOf(name string) time.Duration {
	if first, ok := c.waiters.First(name); ok {
		return first.ttl
	}
	return 0
}

func (w *waiter) answer(h *Lease, err error) {
	w.done, w.hold = true, h
	if h != nil {
		h.callers++
	}
	w.ch <- err
}

// unwant withdraws a call whose context ended. If the call acquired the lease at the same moment, the lease is released, unless
// another caller or the placement of sessions also wants it.
func (c *callers) unwant(name string, w *waiter) {
	if w.done {
		if w.hold == nil {
			return
		}
		if w.hold.callers--; w.hold.callers == 0 && c.cfg.Sessions == nil {
			c.dropHold(w.hold)
		}
		return
	}
	held := c.table.get(name) != nil
	first, _ := c.waiters.First(name)
	c.take(name, nil, c.waiters.Unwant(name, w, held), c.step)
	if next, ok := c.waiters.First(name); ok && !held && first == w && next.ttl != w.ttl {
		c.take(name, nil, c.waiters.Over(name), c.step) // with the TTL of the next caller
	}
}

// acquired gives a new term to the first waiting caller; with a Manager, to all.
func (c *callers) acquired(h *Lease) {
	t := c.waiters.Acquired(h.name)
	h.given = t.Given
	c.take(h.name, h, t, c.later)
}

func (c *callers) refused(t *core.Tell) {
	why := func() *refusal { return refusedNow(c.diagnosis.refusal(t)) }
	c.take(t.ID, nil, c.waiters.Refused(t.ID, t.Cause, why), c.later)
}

// heldHere is the error that another caller of this instance holds the lease.
func (c *callers) heldHere(h *Lease) error {
	deadline, _ := h.Deadline()
	return &heldError{name: h.name, owner: c.cfg.InstanceID, ttl: max(0, time.Until(deadline))}
}

// wantAgain requests a lease again after this instance's term has ended, if callers still wait for the lease.
func (c *callers) wantAgain(name string) {
	c.take(name, nil, c.waiters.Over(name), c.later)
}

// stand requests name and waits for it without a caller.
func (c *callers) stand(name string) {
	c.take(name, nil, c.waiters.Stand(name, c.table.get(name) != nil), c.step)
}

func (c *callers) standDown(name string) {
	c.take(name, nil, c.waiters.StandDown(name, c.table.get(name) != nil), c.step)
}

// dropHold releases a term if it is still the current one.
func (c *callers) dropHold(h *Lease) {
	if c.table.get(h.name) == h {
		c.step(core.Event{Kind: core.EvDrop, ID: h.name, Cause: core.CauseRequested})
	}
}

// awaitRelease handles a call that waits for the release of a lease.
func (c *callers) awaitRelease(r *release) {
	now := c.table.get(r.name)
	switch {
	case now != nil && (r.hold == nil || r.hold == now):
		c.releases.Wait(r.name, r.ch)
		c.step(core.Event{Kind: core.EvDrop, ID: r.name, Cause: core.CauseRequested})
	case r.hold == nil:
		r.ch <- fmt.Errorf("%w: %q", ErrLost, r.name)
	default:
		r.ch <- nil
	}
}

// close answers every waiting Acquire: the instance stops.
func (c *callers) close() {
	for _, w := range c.waiters.Close() {
		w.answer(nil, ErrStopped)
	}
}

func (c *callers) confirmReleases(op *core.Op, a *core.Answer) {
	for _, ch := range c.releases.Answered(op, a) {
		ch <- nil
	}
}

func (c *callers) resolveRelease(name string, err error) {
	for _, ch := range c.releases.Over(name) {
		ch <- err
	}
}
