package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/policy"
)

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

// present returns the current reason, with the holder's TTL reduced by the time since. Once that TTL is over, the holder has renewed, and
// the remaining time is unknown.
func (r *refusal) present() error {
	var held *heldError
	if !errors.As(r.err, &held) || held.ttl <= 0 {
		return r.err
	}
	now := *held
	now.ttl = max(0, held.ttl-time.Since(r.at))
	return &now
}

func (s *shell) acquire(ctx context.Context, name string, wait bool, opts ...Option) (*Lease, error) {
	if err := s.running(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{wait: wait, ch: make(chan error, 1)}
	for _, opt := range opts {
		opt.apply(w)
	}
	if err := s.cfg.checkShorter(w.ttl); err != nil {
		return nil, err
	}
	s.post(func() { s.want(name, w) })
	select {
	case err := <-w.ch:
		return w.hold, s.granting(err, name)
	case <-ctx.Done():
		s.post(func() { s.unwant(name, w) })
		return nil, s.gaveUp(ctx, name, w)
	case <-s.life.Done():
		return nil, ErrStopped
	}
}

// gaveUp is the error of a call whose context ended: the cause, and the last answer, which is out of date while Redis is silent.
func (s *shell) gaveUp(ctx context.Context, name string, w *waiter) error {
	last := errUnknown
	if r := w.refused.Load(); r != nil && !s.silent() {
		last = r.present()
	} else if f := s.failure(core.OpAcquire); f.err != nil {
		last = f.noResult(core.OpAcquire, "acquire", name, "")
	}
	return fmt.Errorf("lease %q: gave up waiting: %w; %w (if it is acquired nevertheless, it is released)", name,
		context.Cause(ctx), last)
}

func (s *shell) running() error {
	started, stopped := s.life.State()
	switch {
	case stopped:
		return ErrStopped
	case !started:
		return errNotStarted
	}
	return nil
}

// want runs in the loop, as everything below except release.
func (s *shell) want(name string, w *waiter) {
	if s.draining {
		w.ch <- ErrStopped
		return
	}
	h := s.table.get(name)
	switch {
	case h == nil || s.keeper:
		s.take(name, h, s.waiters.Want(name, w, w.wait, h != nil), s.step)
	case h.Valid() && !h.asked():
		w.answer(h, nil)
	default:
		w.answer(nil, s.failure(core.OpRenew).noResult(core.OpRenew, "renewal", name, "this instance holds the lease, but a renewal failed"))
	}
}

// take carries out a reply. h is the term that the callers receive; next gets the events for the core.
func (s *shell) take(name string, h *Lease, t policy.Reply[*waiter, *refusal], next func(core.Event)) {
	for _, c := range t.Heard {
		why := t.Why
		if c.Word == policy.Held {
			why = refusedNow(s.heldHere(h))
		}
		switch {
		case c.Word == policy.Won:
			c.Caller.answer(h, nil)
		case c.Ends:
			c.Caller.answer(nil, why.present())
		default:
			c.Caller.refused.Store(why)
		}
	}
	if t.Want {
		next(core.Event{Kind: core.EvWant, ID: name, Wait: t.Wait, TTL: int64(s.ttlOf(name))})
	}
	if t.Drop {
		next(core.Event{Kind: core.EvDrop, ID: name, Cause: core.CauseRequested})
	}
}

// ttlOf returns the TTL of the next term of a lease: that of the caller who gets it.
func (s *shell) ttlOf(name string) time.Duration {
	if first, ok := s.waiters.First(name); ok {
		return first.ttl
	}
	return 0
}

// later queues an event for the core until the current step is over.
func (s *shell) later(e core.Event) { s.todo = append(s.todo, e) }

func (w *waiter) answer(h *Lease, err error) {
	w.done, w.hold = true, h
	if h != nil {
		h.callers++
	}
	w.ch <- err
}

// unwant withdraws a call whose context ended. A lease acquired in the same moment is released, unless another caller or placement has it
// too.
func (s *shell) unwant(name string, w *waiter) {
	if w.done {
		if w.hold == nil {
			return
		}
		if w.hold.callers--; w.hold.callers == 0 && s.source.read == nil {
			s.dropHold(w.hold)
		}
		return
	}
	held := s.table.get(name) != nil
	first, _ := s.waiters.First(name)
	s.take(name, nil, s.waiters.Unwant(name, w, held), s.step)
	if next, ok := s.waiters.First(name); ok && !held && first == w && next.ttl != w.ttl {
		s.take(name, nil, s.waiters.Over(name), s.step) // with the TTL of the next caller
	}
}

// acquired gives a new term to the first waiting caller; with a Manager, to all.
func (s *shell) acquired(h *Lease) {
	t := s.waiters.Acquired(h.name)
	h.given = t.Given
	s.take(h.name, h, t, s.later)
}

func (s *shell) refused(t *core.Tell) {
	why := func() *refusal { return refusedNow(s.refusal(t)) }
	s.take(t.ID, nil, s.waiters.Refused(t.ID, t.Cause, why), s.later)
}

func (s *shell) refusal(t *core.Tell) error {
	wait := time.Duration(t.Wait)
	switch t.Cause {
	case core.CauseHeld:
		return &heldError{name: t.ID, owner: t.Owner, ttl: wait}
	case core.CauseStuck:
		return fmt.Errorf("%w: work under it in this instance was given up, but has not returned yet",
			&heldError{name: t.ID, owner: s.cfg.InstanceID})
	case core.CauseQuarantine:
		return &quarantineError{until: time.Now().Add(wait), doubt: s.doubt, began: s.began}
	case core.CauseClock:
		return &quarantineError{until: time.Now().Add(wait), began: core.CauseClock}
	case core.CauseGroup:
		return s.disagrees()
	case core.CauseDrain:
		return ErrStopped
	case core.CauseWrongType:
		return fmt.Errorf("%w: %q; choose another name or Config.LeasePrefix", errWrongType, t.ID)
	default:
		return s.failure(core.OpAcquire).noResult(core.OpAcquire, "acquire", t.ID, logentry.Reason(t))
	}
}

// heldHere is the error that another caller of this instance holds the lease.
func (s *shell) heldHere(h *Lease) error {
	deadline, _ := h.Deadline()
	return &heldError{name: h.name, owner: s.cfg.InstanceID, ttl: max(0, time.Until(deadline))}
}

// wantAgain requests a lease again after its term here has ended, if callers still wait for it.
func (s *shell) wantAgain(name string) {
	s.take(name, nil, s.waiters.Over(name), s.later)
}

// stand requests name and waits for it without a caller.
func (s *shell) stand(name string) {
	s.take(name, nil, s.waiters.Stand(name, s.table.get(name) != nil), s.step)
}

func (s *shell) standDown(name string) {
	s.take(name, nil, s.waiters.StandDown(name, s.table.get(name) != nil), s.step)
}

// release releases name and waits for Redis' answer. If h is nil, it releases any term.
func (s *shell) release(ctx context.Context, name string, h *Lease) error {
	if err := s.running(); errors.Is(err, errNotStarted) {
		return err
	}
	ch := make(chan error, 1)
	s.post(func() {
		now := s.table.get(name)
		switch {
		case now != nil && (h == nil || h == now):
			s.releases.Wait(name, ch)
			s.step(core.Event{Kind: core.EvDrop, ID: name, Cause: core.CauseRequested})
		case h == nil:
			ch <- fmt.Errorf("%w: %q", ErrLost, name)
		default:
			ch <- nil
		}
	})
	select {
	case err := <-ch:
		return s.granting(err, name)
	case <-ctx.Done():
		return fmt.Errorf("release of lease %q: %w: %w", name, context.Cause(ctx), errUnknown)
	case <-s.life.Done():
		if h != nil && h.over() {
			return nil
		}
		return ErrStopped
	}
}

// dropHold releases a term if it is still the current one.
func (s *shell) dropHold(h *Lease) {
	if s.table.get(h.name) == h {
		s.step(core.Event{Kind: core.EvDrop, ID: h.name, Cause: core.CauseRequested})
	}
}

func (s *shell) confirmReleases(op *core.Op, a *core.Answer) {
	for _, ch := range s.releases.Answered(op, a) {
		ch <- nil
	}
}

func (s *shell) resolveRelease(name string, err error) {
	for _, ch := range s.releases.Over(name) {
		ch <- err
	}
}
