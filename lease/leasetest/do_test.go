package leasetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

// three returns the keepers of three replicas, and a function that takes the lease from its owner.
func three(t *testing.T) (all []*lease.Keeper, lose func()) {
	r := leasetest.New(t)
	for _, id := range []string{"a", "b", "c"} {
		all = append(all, keeper(t, r, id, nil))
	}
	return all, func() { r.Lose(job) }
}

// together calls f for all keepers at once and returns their errors.
func together(all []*lease.Keeper, f func(k *lease.Keeper) error) []error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, k := range all {
		wg.Go(func() { errs[i] = f(k) })
	}
	wg.Wait()
	return errs
}

// Three replicas call the same method: all run with Do, one runs with TryDo, and one per period with DoOnce.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(ctx context.Context, k *lease.Keeper, f func(context.Context, int64) error) error
		runs int
		held int
	}{
		"Do": {func(ctx context.Context, k *lease.Keeper, f func(context.Context, int64) error) error {
			return k.Do(ctx, "job", f)
		}, 3, 0},
		"TryDo": {func(ctx context.Context, k *lease.Keeper, f func(context.Context, int64) error) error {
			return k.TryDo(ctx, "job", f)
		}, 1, 2},
		"DoOnce": {func(ctx context.Context, k *lease.Keeper, f func(context.Context, int64) error) error {
			return k.DoOnce(ctx, "job", time.Hour, f)
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := three(t)
				var mu sync.Mutex
				runs, held := 0, 0
				errs := together(all, func(k *lease.Keeper) error {
					return c.run(t.Context(), k, func(ctx context.Context, _ int64) error {
						mu.Lock()
						runs++
						mu.Unlock()
						<-time.After(time.Second)
						return ctx.Err()
					})
				})
				for _, err := range errs {
					if errors.Is(err, lease.ErrHeld) {
						held++
					} else if err != nil {
						t.Error(err)
					}
				}
				if runs != c.runs || held != c.held {
					t.Errorf("%d runs and %d times ErrHeld, want %d and %d", runs, held, c.runs, c.held)
				}
			})
		})
	}
}

func TestTryDoReturnsTheErrorItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := three(t)
		failed := errors.New("the disk is full")
		err := all[0].TryDo(t.Context(), "job", func(context.Context, int64) error { return failed })
		if err != failed { //nolint:errorlint // the same error value
			t.Errorf("TryDo: %#v, want the error of f itself", err)
		}
	})
}

// After a failure, the next replica runs its function. After a success, none does before the period ends.
func TestDoOnceRunsAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := three(t)
		failed := errors.New("no route to the mail server")
		runs := 0
		once := func(k *lease.Keeper, result error) error {
			return k.DoOnce(t.Context(), "job", time.Minute, func(context.Context, int64) error {
				runs++
				return result
			})
		}
		if err := once(all[0], failed); err != failed || runs != 1 { //nolint:errorlint // the same error value
			t.Errorf("the first: %v, %d runs", err, runs)
		}
		if err := once(all[1], nil); err != nil || runs != 2 {
			t.Errorf("the second: %v, %d runs", err, runs)
		}
		if err := once(all[2], nil); err != nil || runs != 2 {
			t.Errorf("the third, after a success: %v, %d runs", err, runs)
		}
		pass(59 * time.Second)
		if err := once(all[0], nil); err != nil || runs != 2 {
			t.Errorf("within the period: %v, %d runs", err, runs)
		}
		pass(2 * time.Second)
		if err := once(all[0], nil); err != nil || runs != 3 {
			t.Errorf("after the period: %v, %d runs", err, runs)
		}
	})
}

// An instance that lost its lease records nothing, and another does the work.
func TestDoOnceAfterLosingTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, lose := three(t)
		runs := 0
		err := all[0].DoOnce(t.Context(), "job", time.Hour, func(context.Context, int64) error {
			runs++
			lose()
			return nil
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("the first: %v, want ErrLost", err)
		}
		err = all[1].DoOnce(t.Context(), "job", time.Hour, func(context.Context, int64) error {
			runs++
			return nil
		})
		if err != nil || runs != 2 {
			t.Errorf("the second: %v, %d runs", err, runs)
		}
	})
}

func TestDoOnceNeedsAPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all, _ := three(t)
		for _, period := range []time.Duration{0, -time.Second, time.Microsecond} {
			err := all[0].DoOnce(t.Context(), "job", period, func(context.Context, int64) error { return nil })
			if !errors.Is(err, lease.ErrInvalidConfig) {
				t.Errorf("a period of %v: %v, want ErrConfig", period, err)
			}
		}
	})
}
