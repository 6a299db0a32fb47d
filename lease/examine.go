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

// use is this instance's use of Redis, for the check of permissions.
func (s *shell) use() redisstore.Use { return redisstore.Use{Registry: !s.keeper} }

// granting adds to a denial the ACL line that grants the needed rights. names are the leases concerned.
func (s *shell) granting(err error, names ...string) error {
	if !redisstore.Denies(err) {
		return err
	}
	use := s.use()
	use.Leases = names
	return redisstore.Granting(err, s.store.Line(use))
}

func namesOf(items []core.Item) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].ID
	}
	return names
}

// check refuses a Redis that can never work. It accepts one that does not answer now: an instance that starts during an outage joins
// after the outage, and checks then. It runs before the loop.
func (s *shell) check(ctx context.Context) error {
	defer func() { // a refused instance may end the process
		last, cancel := context.WithTimeout(ctx, lastWait)
		defer cancel()
		s.log.Flush(last)
	}()
	known, err := s.examine(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("lease: not started: %w: %w", context.Cause(ctx), err)
	case never(err):
		return fmt.Errorf("lease: %w", err)
	}
	if !known {
		s.workers.Go(s.recheck)
	}
	message, kind := "redis does not answer yet; retrying", core.OpObserve
	if isRefused(err) {
		message, kind = "redis refuses requests at present; retrying", core.OpAcquire
	}
	s.learn(func() {
		s.failures.note(kind, &core.Answer{Failure: core.FailRefused, Err: err}, time.Time{}, time.Now())
	})
	s.log.Warn(message, zap.String("event", "warning"), zap.String("instance", s.cfg.InstanceID), zap.Error(err))
	return nil
}

// never reports whether err means that Redis cannot work until somebody changes its settings.
func never(err error) bool {
	for _, never := range []error{redisstore.ErrNotRedis, redisstore.ErrTooOld, redisstore.ErrAuth, redisstore.ErrDenied,
		redisstore.ErrQuarantineTooShort, redisstore.ErrReplicas} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

// examine checks the kind of Redis, and then whether Redis allows the needed commands. known: Redis answered both.
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
		doubt := s.store.Begin(timed)
		s.learn(func() { s.doubt = doubt })
		err = s.store.Permitted(timed, s.use())
	}
	return err == nil || isRefused(err) || never(err), err
}

// recheck examines a Redis that did not answer at Start until it has answered. It keeps examining an unusable one, because somebody may
// change its settings.
func (s *shell) recheck() {
	for wait := s.cfg.RenewInterval; s.sleep(wait); {
		known, err := s.examine(s.ctx)
		if wait = s.cfg.TTL; err == nil || !never(err) {
			wait, err = s.cfg.RenewInterval, nil
		}
		s.troubled(&s.unfit, err)
		if known && err == nil {
			return
		}
	}
}

func (s *shell) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// countReplicas checks once per TTL whether more replicas acknowledge than Config.Replicas, as Start does. A replica attached later makes
// two majorities possible, which no acknowledgement shows (docs/replicas.md). Leases are still granted: stopping all owners at once would
// cost more than a mere possibility.
func (s *shell) countReplicas() {
	for s.sleep(s.cfg.TTL) {
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.OpTimeout)
		err := s.store.Surplus(ctx)
		cancel()
		if err == nil || errors.Is(err, redisstore.ErrReplicas) { // any other error says nothing about replicas
			s.troubled(&s.surplus, err)
		}
	}
}
