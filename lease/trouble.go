package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// trouble remembers what Redis, or the way to it, last said against each kind of request, until a request of that kind is
// answered: an error of a caller, and Health, say why.
type trouble struct {
	life time.Duration // what is not said again for so long is over: nothing asks for it any more

	mu    sync.Mutex
	kinds [core.OpAsk + 1]failure
	deny  error // what Start's check of permissions found
}

// failure is what was said last, and since when it has been said.
type failure struct {
	err       error
	executed  bool // it is not known that nothing was
	since, at time.Time
}

// note takes the outcome of one request.
func (t *trouble) note(kind core.OpKind, a *core.Answer, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.Failure == core.FailNone {
		t.kinds[kind] = failure{}
		for i := range t.kinds {
			if !isRefused(t.kinds[i].err) { // the way to Redis is open again
				t.kinds[i] = failure{}
			}
		}
		return
	}
	f := &t.kinds[kind]
	if a.Err == nil || a.Err == context.Canceled || a.Err == context.DeadlineExceeded && f.err != nil {
		return // says less than what is known already
	}
	if f.err == nil || now.Sub(f.at) > t.life {
		f.since = now
	}
	f.err, f.executed, f.at = a.Err, a.Failure == core.FailUnknown, now
}

// denied takes what the check of permissions found, nil for nothing.
func (t *trouble) denied(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deny = err
}

// present returns what stands against requests of that kind, or, if there is nothing, against any: refusals before errors of
// the connection. The zero failure: nothing.
func (t *trouble) present(kind core.OpKind, now time.Time) failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last failure
	for i, f := range t.kinds {
		switch {
		case f.err == nil || now.Sub(f.at) > t.life:
		case core.OpKind(i) == kind:
			return f
		case last.err == nil || isRefused(f.err) && !isRefused(last.err) || isRefused(f.err) == isRefused(last.err) && f.at.After(last.at):
			last = f
		}
	}
	if last.err == nil && t.deny != nil {
		last.err = t.deny
	}
	return last
}

// unconfirmed says that Redis answered with an error, and what it did before is not known.
type unconfirmed struct{ error }

func (e unconfirmed) Is(target error) bool { return target == ErrUnknown }
func (e unconfirmed) Unwrap() error        { return e.error }

// resultless is the error of a read that has no result.
func resultless(err error) error {
	if err = redisstore.Cause(err); isRefused(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// noResult is the error of a request on a lease that has no result: why, as far as is known. text is what the core says of it.
func (s *shell) noResult(kind core.OpKind, what, name, text string) error {
	f := s.trouble.present(kind, time.Now())
	switch {
	case f.err == nil:
		return fmt.Errorf("%w: %s of lease %q: %s", ErrUnknown, what, name, text)
	case !isRefused(f.err):
		return fmt.Errorf("%w: %s of lease %q: %w", ErrUnknown, what, name, f.err)
	}
	err := fmt.Errorf("%s of lease %q: %w", what, name, f.err)
	if f.executed || kind == core.OpRelease { // a release is confirmed or it is not
		return unconfirmed{err}
	}
	return err
}

// isRefused reports whether err is an error reply of Redis.
func isRefused(err error) bool { return errors.Is(err, ErrRefused) }

// use is what this instance does with Redis, for the check of permissions.
func (s *shell) use() redisstore.Use { return redisstore.Use{Registry: !s.keeper} }

// check refuses a Redis that will never do. One that cannot be reached now is waited for: an instance that starts during
// an outage takes part when it ends, and checks then.
func (s *shell) check(ctx context.Context) error {
	known, err := s.examine(ctx)
	s.unchecked.Store(!known)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("lease: not started: %w: %w", context.Cause(ctx), err)
	}
	if never(err) {
		return fmt.Errorf("lease: %w", err)
	}
	a := core.Answer{Failure: core.FailRefused, Err: err}
	message := "redis does not answer yet; trying on"
	if kind := core.OpObserve; isRefused(err) {
		message = "redis refuses now what leases need; trying on"
		s.trouble.note(core.OpAcquire, &a, time.Now())
	} else {
		s.trouble.note(kind, &a, time.Now())
	}
	s.cfg.Logger.Warn(message, zap.String("event", "warning"), zap.String("instance", s.cfg.InstanceID), zap.Error(err))
	return nil
}

// never reports whether err is of a Redis that will not do before somebody changes its settings.
func never(err error) bool {
	for _, never := range []error{redisstore.ErrNotRedis, redisstore.ErrTooOld, redisstore.ErrAuth, redisstore.ErrDenied} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

// examine asks what kind of Redis it is, and then whether it allows what will be needed. known: both were answered.
func (s *shell) examine(ctx context.Context) (known bool, err error) {
	timed, cancel := context.WithTimeout(ctx, s.cfg.OpTimeout)
	defer cancel()
	warnings, err := s.store.Check(timed)
	for _, w := range warnings {
		s.cfg.Logger.Warn(string(w), zap.String("event", "warning"), zap.String("instance", s.cfg.InstanceID))
	}
	if err != nil {
		return false, err
	}
	timed, cancel = context.WithTimeout(ctx, s.cfg.OpTimeout)
	defer cancel()
	err = s.store.Permitted(timed, s.use())
	return err == nil || isRefused(err), err
}

// noted takes the outcome of a request. The first answer of a Redis that was away at Start makes it be checked.
func (s *shell) noted(kind core.OpKind, a *core.Answer) {
	s.trouble.note(kind, a, time.Now())
	if (a.Failure == core.FailNone || isRefused(a.Err)) && s.unchecked.CompareAndSwap(true, false) {
		s.workers.Go(s.recheck)
	}
}

// recheck is check for a Redis that was away at Start. What it denies keeps Health from being OK until it is granted.
func (s *shell) recheck() {
	told := ""
	for {
		known, err := s.examine(s.ctx)
		if err == nil || !never(err) {
			s.trouble.denied(nil)
			s.unchecked.Store(!known)
			return
		}
		s.trouble.denied(err)
		if err.Error() != told {
			told = err.Error()
			s.cfg.Logger.Error("redis will not do", zap.String("event", "warning"),
				zap.String("instance", s.cfg.InstanceID), zap.Error(err))
		}
		select {
		case <-time.After(s.cfg.TTL):
		case <-s.ctx.Done():
			return
		}
	}
}
