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

// check refuses a Redis that cannot work with its present settings. It accepts a Redis that does not answer now: an instance that
// starts during an outage joins after the outage, and recheck examines Redis then. It runs before the loop.
func (d *diagnosis) check(ctx context.Context) error {
	defer func() { // a refused instance may end the process
		last, cancel := context.WithTimeout(ctx, lastWait)
		defer cancel()
		d.log.Flush(last)
	}()
	known, err := d.examine(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("lease: not started: %w: %w", context.Cause(ctx), err)
	case never(err):
		return fmt.Errorf("lease: %w", err)
	}
	if !known {
		d.workers.Go(d.recheck)
	}
	message, kind := "redis does not answer yet; retrying", core.OpObserve
	if isRefused(err) {
		message, kind = "redis refuses requests at present; retrying", core.OpAcquire
	}
	d.learn(func() {
		d.failures.note(kind, &core.Answer{Failure: core.FailRefused, Err: err}, time.Time{}, time.Now())
	})
	d.log.Warn(message, zap.String("event", "warning"), zap.String("instance", d.cfg.InstanceID), zap.Error(err))
	return nil
}

// examine checks the kind of Redis, and then whether Redis allows the needed commands. known: Redis answered both.
func (d *diagnosis) examine(ctx context.Context) (known bool, err error) {
	timed, cancel := context.WithTimeout(ctx, d.cfg.OpTimeout)
	defer cancel()
	warnings, err := d.store.Check(timed)
	for _, w := range warnings {
		d.log.Warn(string(w), zap.String("event", "warning"), zap.String("instance", d.cfg.InstanceID))
	}
	if err != nil {
		return false, err
	}
	timed, cancel = context.WithTimeout(ctx, d.cfg.OpTimeout)
	defer cancel()
	if err = d.store.CheckQuarantine(timed); err == nil {
		doubt := d.store.Begin(timed)
		d.learn(func() { d.doubt = doubt })
		err = d.store.Permitted(timed, d.use())
	}
	return err == nil || isRefused(err) || never(err), err
}

// recheck examines a Redis that did not answer at Start, until Redis has answered. It keeps examining an unusable Redis, because
// somebody may change its settings.
func (d *diagnosis) recheck() {
	for wait := d.cfg.RenewInterval; d.sleep(wait); {
		known, err := d.examine(d.ctx)
		if wait = d.cfg.TTL; err == nil || !never(err) {
			wait, err = d.cfg.RenewInterval, nil
		}
		d.troubled(&d.troubles.unfit, err)
		if known && err == nil {
			return
		}
	}
}

// countReplicas checks once per TTL whether more replicas acknowledge than Config.Replicas, as Start does. A replica attached later makes
// two majorities possible, which no acknowledgement shows (docs/replicas.md). Leases are still granted: stopping all owners at once would
// cost more than a mere possibility.
func (d *diagnosis) countReplicas() {
	for d.sleep(d.cfg.TTL) {
		ctx, cancel := context.WithTimeout(d.ctx, d.cfg.OpTimeout)
		err := d.store.Surplus(ctx)
		cancel()
		if err == nil || errors.Is(err, redisstore.ErrReplicas) { // any other error says nothing about replicas
			d.troubled(&d.troubles.surplus, err)
		}
	}
}
