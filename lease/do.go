package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Do runs f while it holds the lease: every caller's function runs, one at a
// time, in no promised order. Use TryDo or DoOnce for work that only one of
// several callers should do.
//
// Do releases the lease after f has returned or panicked. The context of f ends
// when ctx ends, when the trust window ends, or when the keeper stops;
// context.Cause says which. f should send fence with every write. Do returns
// the error of f, joined with ErrLost if the lease was lost while f ran. If Do
// could not acquire the lease, it returns the error of Acquire and does not
// call f: ErrHeld if ctx ended while another instance held the lease.
func (k *Keeper) Do(ctx context.Context, name string, f func(ctx context.Context, fence int64) error, opts ...Option) error {
	h, err := k.Acquire(ctx, name, opts...)
	return k.under(ctx, h, err, f)
}

// TryDo runs f if nobody holds the lease; otherwise it returns ErrHeld at once.
// If TryDo could not acquire the lease, it returns the error of TryAcquire and
// does not call f. Everything else is as in Do.
func (k *Keeper) TryDo(ctx context.Context, name string, f func(ctx context.Context, fence int64) error, opts ...Option) error {
	h, err := k.TryAcquire(ctx, name, opts...)
	return k.under(ctx, h, err, f)
}

// DoOnce returns nil without calling f if a function has succeeded under this
// name within the last period. Otherwise it runs f. While one caller runs its
// function, all other callers of this name wait, in every instance. If that
// function fails, or its process dies, the next caller runs its own function.
//
// The work can run more than once in a period: if Redis could not record the
// success, another caller may run the work again. DoOnce then returns ErrLost,
// because the caller no longer held the lease, or the connection's error,
// because Redis did not answer. The work can also run again if Redis, or a
// failover, has lost the record. The period begins with the success. Redis
// measures it, so the clocks of the instances do not matter. A period below one
// millisecond is ErrInvalidConfig. While Redis may have lost leases, DoOnce
// waits as Acquire does.
func (k *Keeper) DoOnce(ctx context.Context, name string, period time.Duration, f func(ctx context.Context, fence int64) error) error {
	if period < time.Millisecond {
		return fmt.Errorf("%w: DoOnce needs a period of at least 1ms, not %v", ErrInvalidConfig, period)
	}
	if err := k.s.nameError(name); err != nil {
		return err
	}
	if done, err := k.s.store.Done(ctx, name); done {
		return nil
	} else if err != nil {
		return resultless(err)
	}
	return k.Do(ctx, name, func(ctx context.Context, fence int64) error {
		if done, err := k.s.store.Done(ctx, name); done {
			return nil
		} else if err != nil {
			return resultless(err)
		}
		if err := f(ctx, fence); err != nil {
			return err
		}
		holding := redisstore.Holding{ID: name, Owner: k.s.cfg.InstanceID, Fence: fence}
		switch noted, err := k.s.store.NoteDone(ctx, holding, period); {
		case err != nil:
			return fmt.Errorf("the work of %q is done, but Redis did not record it: %w", name, resultless(err))
		case !noted:
			return fmt.Errorf("%w: the work of %q is done, but another instance may do it again", ErrLost, name)
		}
		return nil
	})
}

// under runs f while it holds h. If failed is not nil, the lease was not acquired, and under
// returns failed.
func (k *Keeper) under(ctx context.Context, h *Lease, failed error, f func(ctx context.Context, fence int64) error) (err error) {
	if failed != nil {
		return failed
	}
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.s.cfg.OpTimeout)
		defer cancel()
		lost := h.lost()
		// A release without an answer is no failure of f: it is retried until the lease expires.
		if rerr := h.Release(rctx); rerr != nil && !errors.Is(rerr, errUnknown) {
			err = errors.Join(err, rerr)
		}
		if lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	work, end := withHolds(ctx, h)
	defer end()
	return f(context.WithValue(work, doing{k.s, h.name}, true), h.fence)
}
