package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// use is what this instance does with Redis, for the check of permissions.
func (s *shell) use() redisstore.Use { return redisstore.Use{Registry: !s.keeper} }

// granting adds to a denial the line that grants what this instance needs. names are the leases that are meant.
func (s *shell) granting(err error, names ...string) error {
	if !redisstore.Denies(err) {
		return err
	}
	use := s.use()
	use.Leases = names
	return redisstore.Granting(err, s.store.Line(use))
}

// namesOf returns the leases of items.
func namesOf(items []core.Item) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].ID
	}
	return names
}

// checked is check, and waits for what it has said: who is refused may end the process.
func (s *shell) checked(ctx context.Context) error {
	err := s.check(ctx)
	last, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	s.log.Flush(last)
	return err
}

// check refuses a Redis that will never do. It waits for one that cannot be reached now: an instance that starts during an outage takes
// part when it ends, and checks then. It runs before the loop.
func (s *shell) check(ctx context.Context) error {
	known, err := s.examine(ctx)
	s.unchecked = !known
	switch {
	case err == nil:
		s.unused = s.store.Unused(ctx)
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("lease: not started: %w: %w", context.Cause(ctx), err)
	case never(err):
		return fmt.Errorf("lease: %w", err)
	}
	message, kind := "redis does not answer yet; trying on", core.OpObserve
	if isRefused(err) {
		message, kind = "redis refuses now what leases need; trying on", core.OpAcquire
	}
	s.failures.note(kind, &core.Answer{Failure: core.FailRefused, Err: err}, time.Time{}, time.Now())
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

// recheck is check for a Redis that was away at Start. What it denies keeps Health from being OK until it is granted.
func (s *shell) recheck() {
	told := ""
	for {
		known, err := s.examine(s.ctx)
		bad := err != nil && never(err)
		s.post(func() {
			s.failures.start = nil
			if bad {
				s.failures.start = err
				return
			}
			s.recheckAt = s.now().Mono + core.Time(s.cfg.RenewInterval/4) // one that loads refuses every probe, and the check too
			s.unchecked = !known
		})
		if !bad {
			return
		}
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

// countReplicas asks once in a TTL whether more replicas acknowledge than Config.Replicas, as Start does: whoever attaches one later
// makes two majorities possible, which no acknowledgement shows (docs/replicas.md). Leases are granted all the same, because owners that
// all stopped at once would cost more than what is only possible.
func (s *shell) countReplicas() {
	tick := time.NewTicker(s.cfg.TTL)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.OpTimeout)
		err := s.store.Surplus(ctx)
		cancel()
		s.post(func() { s.counted(err) })
	}
}
