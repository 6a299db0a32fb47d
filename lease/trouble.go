package lease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// trouble remembers what Redis, or the way to it, last said against each kind of request, until a request of that kind is
// answered, or another shows that it no longer stands: an error of a caller, and Health, say why.
type trouble struct {
	life time.Duration // what is not said again for so long is over: nothing asks for it any more

	mu    sync.Mutex
	kinds map[core.OpKind]failure
	deny  error  // what Start's check of permissions found
	line  string // of an ACL, which grants what it denies; "" where that is not known
}

// failure is what was said last, and since when it has been said.
type failure struct {
	err       error
	executed  bool // it is not known that nothing was
	since, at time.Time
}

// note takes the outcome of one request that was sent at sent.
func (t *trouble) note(kind core.OpKind, a *core.Answer, sent, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.Failure == core.FailNone {
		delete(t.kinds, kind)
		defer t.forget()
		t.answered(sent, func(error) bool { return false })
		if a.Acked > 0 {
			t.answered(sent, func(err error) bool { return errors.Is(err, ErrUnacknowledged) })
		}
		if wrote, grown := written(kind, a); wrote {
			t.answered(sent, func(err error) bool { return redisstore.Outdated(err, grown) })
		}
		return
	}
	f := t.kinds[kind]
	if a.Err == nil || errors.Is(a.Err, context.Canceled) || timeOnly(a.Err) && len(t.kinds) > 0 {
		return // says less than what is known already
	}
	if f.err == nil || now.Sub(f.at) > t.life {
		f.since = now
	}
	f.err, f.executed, f.at = a.Err, a.Failure == core.FailUnknown || a.Failure == core.FailUncounted, now
	t.kinds[kind] = f
}

// answered forgets what an answer to a request of any kind shows to be over, if it was said before that was sent: the way to Redis is
// open again, and over holds of what it had refused.
func (t *trouble) answered(sent time.Time, over func(error) bool) {
	for k, f := range t.kinds {
		if f.at.Before(sent) && (!isRefused(f.err) || over(f.err)) {
			delete(t.kinds, k)
		}
	}
}

// written reports whether Redis wrote what it was asked, and whether that took memory.
func written(kind core.OpKind, a *core.Answer) (wrote, grown bool) {
	if a.Stale {
		return false, false
	}
	wrote, grown = kind == core.OpBeat || kind == core.OpLeave, kind == core.OpBeat
	for i := range a.Results {
		switch a.Results[i].Outcome {
		case core.OutGranted:
			return true, true
		case core.OutAdopted, core.OutRenewed, core.OutReasserted, core.OutReleased:
			wrote = true
		}
	}
	return wrote, grown
}

// over forgets the refusals for which is holds, if they were said before at.
func (t *trouble) over(at time.Time, is func(error) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered(at, is)
	t.forget()
}

// denial reports whether an ACL denied something that has not been tried since.
func (t *trouble) denial() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denies()
}

func (t *trouble) denies() bool {
	for _, f := range t.kinds {
		if redisstore.Denies(f.err) {
			return true
		}
	}
	return false
}

// renewals returns what was said last against renewing: to one, to a probe, which is all that is sent while one would not be answered, or
// an error of the connection.
func (t *trouble) renewals(now time.Time) (last failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, f := range t.kinds {
		renews := k == core.OpRenew || k == core.OpReassert || k == core.OpObserve
		if (renews || !isRefused(f.err)) && now.Sub(f.at) <= t.life && f.at.After(last.at) {
			last = f
		}
	}
	return t.explained(last)
}

// unrenewed is what Redis, or the way to it, says against renewals, in its own words.
func (s *shell) unrenewed() string {
	f := s.trouble.renewals(time.Now())
	if f.err == nil {
		return ""
	}
	return strings.TrimPrefix(f.err.Error(), ErrRefused.Error()+": ")
}

// unreached adds to what the core says of an attempt what the way to Redis said last: that an answer is missing is known before why.
func (s *shell) unreached(text string) string {
	f := s.trouble.present(0, time.Now())
	if f.err == nil || isRefused(f.err) || strings.Contains(f.err.Error(), text) {
		return text
	}
	return text + because(f.err)
}

func (t *trouble) explained(f failure) failure {
	f.err = redisstore.Granting(f.err, t.line)
	return f
}

// forget drops the line once nothing is denied: the next denial may be of something else.
func (t *trouble) forget() {
	if t.line != "" && !t.denies() {
		t.line = ""
	}
}

// granting takes the line that grants what is denied, and returns the one that is known.
func (t *trouble) granting(line string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line != "" && t.denies() {
		t.line = line
	}
	return t.line
}

// timeOnly reports whether err says nothing but that the time was over.
func timeOnly(err error) bool {
	var way *net.OpError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &way)
}

// denied takes what the check of permissions found, nil for nothing.
func (t *trouble) denied(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deny = err
}

// present returns what stands against requests of that kind, or, if there is nothing, against any: refusals before errors of
// the connection. What stands against requests of the kinds but is left out. The zero failure: nothing.
func (t *trouble) present(kind core.OpKind, now time.Time, but ...core.OpKind) failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last failure
	for k, f := range t.kinds {
		switch {
		case f.err == nil || now.Sub(f.at) > t.life || slices.Contains(but, k):
		case k == kind:
			return t.explained(f)
		case last.err == nil || isRefused(f.err) && !isRefused(last.err) || isRefused(f.err) == isRefused(last.err) && f.at.After(last.at):
			last = f
		}
	}
	if last.err == nil && t.deny != nil {
		last.err = t.deny
	}
	return t.explained(last)
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

// unconfirmedReleases is what finish says is left where all work has ended.
const unconfirmedReleases = "releases that Redis has not confirmed"

// leftBehind is the error of a stop that had to leave something, and why.
func (s *shell) leftBehind(left string) error {
	err := fmt.Errorf("stopped after %v with %s; what is left expires within %v", s.cfg.DrainTimeout, left, s.cfg.TTL)
	f := s.trouble.present(core.OpRelease, time.Now())
	switch {
	case left != unconfirmedReleases: // it is not Redis that is waited for
	case f.err != nil:
		err = fmt.Errorf("%w: %w", err, f.err)
	default:
		err = fmt.Errorf("%w: %w", err, ErrUnknown)
	}
	return unconfirmed{err}
}

// isRefused reports whether err is an error reply of Redis.
func isRefused(err error) bool { return errors.Is(err, ErrRefused) }

// use is what this instance does with Redis, for the check of permissions.
func (s *shell) use() redisstore.Use { return redisstore.Use{Registry: !s.keeper} }

// checked is check, and waits for what it has said: who is refused may end the process.
func (s *shell) checked(ctx context.Context) error {
	err := s.check(ctx)
	last, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	s.log.Flush(last)
	return err
}

// check refuses a Redis that will never do. One that cannot be reached now is waited for: an instance that starts during
// an outage takes part when it ends, and checks then.
func (s *shell) check(ctx context.Context) error {
	known, err := s.examine(ctx)
	s.unchecked.Store(!known)
	switch {
	case err == nil:
		s.unused.Store(s.store.Unused(ctx))
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
		s.trouble.note(core.OpAcquire, &a, time.Time{}, time.Now())
	} else {
		s.trouble.note(kind, &a, time.Time{}, time.Now())
	}
	s.log.Warn(message, zap.String("event", "warning"), zap.String("instance", s.cfg.InstanceID), zap.Error(err))
	return nil
}

// never reports whether err is of a Redis that will not do before somebody changes its settings.
func never(err error) bool {
	for _, never := range []error{redisstore.ErrNotRedis, redisstore.ErrTooOld, redisstore.ErrAuth, redisstore.ErrDenied,
		redisstore.ErrQuarantineTooShort, redisstore.ErrReplicas} {
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
		s.log.Warn(string(w), zap.String("event", "warning"), zap.String("instance", s.cfg.InstanceID))
	}
	if err != nil {
		return false, err
	}
	timed, cancel = context.WithTimeout(ctx, s.cfg.OpTimeout)
	defer cancel()
	if err = s.store.CheckQuarantine(timed); err == nil {
		err = s.store.Permitted(timed, s.use())
	}
	return err == nil || isRefused(err) || never(err), err
}

// disagrees is the error of an instance that its group's quarantine does not suit.
func (s *shell) disagrees() error {
	return s.store.TooShort(max(s.cfg.TTL, s.cfg.Quarantine), time.Duration(s.agreed.Load()))
}

// noted takes the outcome of a request on op's leases. The first answer of a Redis that was away at Start makes it be checked,
// and so does one that writes after an ACL has denied something else.
func (s *shell) noted(op *core.Op, a *core.Answer) {
	kind, sent := op.Kind, op.Sent
	s.trouble.note(kind, a, s.time(sent), time.Now())
	switch {
	case a.Failure == core.FailNone || isRefused(a.Err):
		s.unanswered.Store(0)
	default:
		s.unanswered.CompareAndSwap(0, int64(sent))
	}
	if wrote, _ := written(kind, a); wrote && a.Failure == core.FailNone && s.trouble.denial() {
		s.askRights()
	}
	if redisstore.Denies(a.Err) && s.trouble.granting("") == "" {
		s.workers.Go(func() { s.explain(a.Err, namesOf(op.Items)) })
	}
	checkable := a.Failure == core.FailNone || isRefused(a.Err) && s.now().Mono >= core.Time(s.recheckAt.Load())
	if checkable && s.unchecked.CompareAndSwap(true, false) {
		s.workers.Go(s.recheck)
	}
}

// askRights asks once in a renewal interval whether an ACL still denies what it did.
func (s *shell) askRights() {
	now := s.now().Mono
	last := s.askedRights.Load()
	if last != 0 && int64(now)-last < int64(s.cfg.RenewInterval) || !s.askedRights.CompareAndSwap(last, int64(now)) {
		return
	}
	s.workers.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.OpTimeout)
		defer cancel()
		if s.store.Permitted(ctx, s.use()) == nil {
			s.trouble.over(s.time(now), redisstore.Denies)
		}
	})
}

// recheck is check for a Redis that was away at Start. What it denies keeps Health from being OK until it is granted.
func (s *shell) recheck() {
	told := ""
	for {
		known, err := s.examine(s.ctx)
		if err == nil || !never(err) {
			s.trouble.denied(nil)
			s.recheckAt.Store(int64(s.now().Mono) + int64(s.cfg.RenewInterval/4)) // one that loads refuses every probe, and the check too
			s.unchecked.Store(!known)
			return
		}
		s.trouble.denied(err)
		if err.Error() != told {
			told = err.Error()
			s.log.Error("redis will not do", zap.String("event", "warning"),
				zap.String("instance", s.cfg.InstanceID), zap.Error(err))
		}
		select {
		case <-time.After(s.cfg.TTL):
		case <-s.ctx.Done():
			return
		}
	}
}
