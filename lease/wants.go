package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
)

// wanted is one lease that callers of this instance are after.
type wanted struct {
	waiters []*waiter // first come, first served
	refused *refusal  // the last one, for who asks while the core waits
}

// waiter is one call of Acquire or TryAcquire.
type waiter struct {
	wait bool
	done bool       // answered
	hold *Hold      // what it got
	ch   chan error // buffered: the loop never waits

	refused atomic.Pointer[refusal] // the last it waits on after; read when its context ends, also while the loop is stuck
}

// refusal is why a lease was not had, and when.
type refusal struct {
	err error
	at  time.Time
}

func refusedNow(err error) *refusal { return &refusal{err: err, at: time.Now()} }

// present returns the reason as it stands now: what was left of the holder's TTL has become less. Once it has run out the
// holder has renewed, and for how long is not known.
func (r *refusal) present() error {
	var held *HeldError
	if !errors.As(r.err, &held) || held.TTL <= 0 {
		return r.err
	}
	now := *held
	now.TTL = max(0, held.TTL-time.Since(r.at))
	return &now
}

// acquire asks for a lease on behalf of one caller.
func (s *shell) acquire(ctx context.Context, name string, wait bool) (*Hold, error) {
	if err := s.running(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{wait: wait, ch: make(chan error, 1)}
	s.post(func() { s.want(name, w) })
	select {
	case err := <-w.ch:
		return w.hold, s.explained(err, name)
	case <-ctx.Done():
		s.post(func() { s.unwant(name, w) })
		return nil, s.gaveUp(ctx, name, w)
	case <-s.done:
		return nil, ErrStopped
	}
}

// gaveUp is the error of a call whose context ended: the cause, and the last answer. While Redis is silent that is out of date.
func (s *shell) gaveUp(ctx context.Context, name string, w *waiter) error {
	last := ErrUnknown
	if r := w.refused.Load(); r != nil && !s.silent.Load() {
		last = r.present()
	} else if s.trouble.present(core.OpAcquire, time.Now()).err != nil {
		last = s.noResult(core.OpAcquire, "acquire", name, "")
	}
	return fmt.Errorf("lease %q: gave up waiting: %w; %w (if it is won all the same, it is given back)", name,
		context.Cause(ctx), last)
}

func (s *shell) running() error {
	s.life.Lock()
	defer s.life.Unlock()
	switch {
	case s.stopping:
		return ErrStopped
	case !s.begun:
		return ErrNotStarted
	}
	return nil
}

// want runs in the loop, as everything below.
func (s *shell) want(name string, w *waiter) {
	if s.draining {
		w.ch <- ErrStopped
		return
	}
	if h := s.table.get(name); h != nil {
		switch {
		case !s.keeper && h.Valid() && !h.yielding.Load():
			w.answer(h, nil)
			return
		case !s.keeper:
			w.answer(nil, s.noResult(core.OpRenew, "renewal", name,
				"the lease is this instance's, but not certain now"))
			return
		case !w.wait:
			w.answer(nil, s.heldHere(h))
			return
		}
		w.refused.Store(refusedNow(s.heldHere(h)))
		s.wanted(name).add(w)
		return
	}
	e := s.wanted(name)
	asking := len(e.waiters) > 0
	if asking && !w.wait && e.refused != nil {
		w.answer(nil, e.refused.present())
		return
	}
	w.refused.Store(e.refused)
	e.add(w)
	if !asking || w.wait {
		s.step(core.Event{Kind: core.EvWant, ID: name, Wait: e.waits() || s.standing[name]})
	}
}

func (s *shell) wanted(name string) *wanted {
	e, ok := s.wants[name]
	if !ok {
		e = &wanted{}
		s.wants[name] = e
	}
	return e
}

func (e *wanted) add(w *waiter) { e.waiters = append(e.waiters, w) }

func (e *wanted) waits() bool {
	return slices.ContainsFunc(e.waiters, func(w *waiter) bool { return w.wait })
}

func (w *waiter) answer(h *Hold, err error) {
	w.done, w.hold = true, h
	w.ch <- err
}

// unwant takes back a call whose context ended. What it won in the same moment is given back.
func (s *shell) unwant(name string, w *waiter) {
	if w.done {
		if w.hold != nil && (s.keeper || s.cfg.Sessions == nil) {
			s.dropHold(w.hold)
		}
		return
	}
	e, ok := s.wants[name]
	if !ok {
		return
	}
	e.waiters = slices.DeleteFunc(e.waiters, func(x *waiter) bool { return x == w })
	if len(e.waiters) == 0 {
		delete(s.wants, name)
		if s.table.get(name) == nil && !s.standing[name] {
			s.step(core.Event{Kind: core.EvDrop, ID: name, Cause: core.CauseRequested})
		}
	}
}

// acquired gives a new term to the first who waits for it.
func (s *shell) acquired(h *Hold) {
	e, ok := s.wants[h.name]
	if !ok {
		if s.standing[h.name] {
			delete(s.standing, h.name)
			h.given = true
		} else if s.keeper {
			s.todo = append(s.todo, core.Event{Kind: core.EvDrop, ID: h.name, Cause: core.CauseRequested})
		}
		return
	}
	first := true
	rest := e.waiters[:0]
	for _, w := range e.waiters {
		switch {
		case first || !s.keeper:
			h.given = s.keeper
			w.answer(h, nil)
		case !w.wait:
			w.answer(nil, s.heldHere(h))
		default:
			w.refused.Store(refusedNow(s.heldHere(h)))
			rest = append(rest, w)
		}
		first = false
	}
	e.waiters, e.refused = rest, nil
	if len(rest) == 0 {
		delete(s.wants, h.name)
	}
}

// refused answers those who made one attempt; those who wait go on waiting unless waiting cannot help.
func (s *shell) refused(t *core.Tell) {
	e, ok := s.wants[t.ID]
	if !ok {
		return
	}
	err := s.refusal(t)
	e.refused = refusedNow(err)
	final := t.Cause == core.CauseDrain || t.Cause == core.CauseWrongType || t.Cause == core.CauseStuck
	rest := e.waiters[:0]
	for _, w := range e.waiters {
		if final || !w.wait {
			w.answer(nil, err)
		} else {
			w.refused.Store(e.refused)
			rest = append(rest, w)
		}
	}
	e.waiters = rest
	if len(rest) > 0 {
		return
	}
	delete(s.wants, t.ID)
	if final && !s.standing[t.ID] {
		s.todo = append(s.todo, core.Event{Kind: core.EvDrop, ID: t.ID, Cause: core.CauseRequested})
	}
}

func (s *shell) refusal(t *core.Tell) error {
	wait := time.Duration(t.Wait)
	switch t.Cause {
	case core.CauseHeld:
		return &HeldError{Name: t.ID, Owner: t.Owner, TTL: wait}
	case core.CauseStuck:
		return fmt.Errorf("%w: this instance's own work under it is stuck; call Hold.Recovered once it has returned",
			&HeldError{Name: t.ID, Owner: s.cfg.InstanceID})
	case core.CauseQuarantine:
		return &QuarantineError{Until: time.Now().Add(wait), unused: s.unused.Load()}
	case core.CauseClock:
		return fmt.Errorf("%w, so nothing is acquired before %s", ErrClock, time.Now().Add(wait).Format(time.RFC3339Nano))
	case core.CauseGroup:
		return s.disagrees()
	case core.CauseDrain:
		return ErrStopped
	case core.CauseWrongType:
		return fmt.Errorf("%w: %q; choose another name or Config.LeasePrefix", ErrWrongType, t.ID)
	default:
		return s.noResult(core.OpAcquire, "acquire", t.ID, logentry.Reason(t))
	}
}

// heldHere says that another caller of this instance holds the lease.
func (s *shell) heldHere(h *Hold) error {
	return &HeldError{Name: h.name, Owner: s.cfg.InstanceID, TTL: max(0, time.Until(h.Until()))}
}

// wantAgain asks anew for a lease whose term here is over while others here wait for it.
func (s *shell) wantAgain(name string) {
	e, ok := s.wants[name]
	if (ok || s.standing[name]) && !s.draining {
		s.todo = append(s.todo, core.Event{Kind: core.EvWant, ID: name, Wait: s.standing[name] || e.waits()})
	}
}

// stand asks for name and waits for it without a caller.
func (s *shell) stand(name string) {
	if s.draining {
		return
	}
	s.standing[name] = true
	if s.table.get(name) == nil {
		s.step(core.Event{Kind: core.EvWant, ID: name, Wait: true})
	}
}

func (s *shell) standDown(name string) {
	if !s.standing[name] {
		return
	}
	delete(s.standing, name)
	if _, ok := s.wants[name]; !ok && s.table.get(name) == nil {
		s.step(core.Event{Kind: core.EvDrop, ID: name, Cause: core.CauseRequested})
	}
}

// answerAll ends every call that waits for name.
func (s *shell) answerAll(name string, h *Hold, err error) {
	e := s.wants[name]
	delete(s.wants, name)
	for _, w := range e.waiters {
		w.answer(h, err)
	}
}

func (s *shell) wantedNames() []string {
	names := make([]string, 0, len(s.wants))
	for name := range s.wants {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// release gives name back and waits for Redis' word. h nil: whatever term there is.
func (s *shell) release(ctx context.Context, name string, h *Hold) error {
	if err := s.running(); errors.Is(err, ErrNotStarted) {
		return err
	}
	ch := make(chan error, 1)
	s.post(func() {
		now := s.table.get(name)
		switch {
		case now != nil && (h == nil || h == now):
			s.releasers[name] = append(s.releasers[name], ch)
			s.step(core.Event{Kind: core.EvDrop, ID: name, Cause: core.CauseRequested})
		case h == nil:
			ch <- fmt.Errorf("%w: %q", ErrLost, name)
		default:
			ch <- nil
		}
	})
	select {
	case err := <-ch:
		return s.explained(err, name)
	case <-ctx.Done():
		return fmt.Errorf("release of lease %q: %w: %w", name, context.Cause(ctx), ErrUnknown)
	case <-s.done:
		if h != nil && h.over() {
			return nil
		}
		return ErrStopped
	}
}

// dropHold gives a term back, if it still is the present one.
func (s *shell) dropHold(h *Hold) {
	if s.table.get(h.name) == h {
		s.step(core.Event{Kind: core.EvDrop, ID: h.name, Cause: core.CauseRequested})
	}
}

// confirmReleases tells the callers of Release what Redis answered.
func (s *shell) confirmReleases(op *core.Op, a *core.Answer) {
	if a.Failure != core.FailNone || a.Stale || len(s.releasers) == 0 {
		return
	}
	for i, it := range op.Items {
		if i < len(a.Results) && a.Results[i].Outcome != core.OutUnknown {
			s.resolveRelease(it.ID, nil)
		}
	}
}

func (s *shell) resolveRelease(name string, err error) {
	waiting, ok := s.releasers[name]
	if !ok {
		return
	}
	delete(s.releasers, name)
	for _, ch := range waiting {
		ch <- err
	}
}
