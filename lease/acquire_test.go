package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// gaveUp fails the test unless err is that of a call whose context ended after an answer that matches only want.
func gaveUp(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err = %v, want DeadlineExceeded", err)
	}
	for _, is := range []error{ErrHeld, ErrQuarantine, errUnknown} {
		if errors.Is(err, is) != errors.Is(want, is) {
			t.Errorf("err = %v: errors.Is(err, %q) is %v", err, is, errors.Is(err, is))
		}
	}
	if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, `"job"`) {
		t.Errorf("err = %q, want one line that names the lease", text)
	}
}

// heldBy fails the test unless err says that owner holds the lease for about d; 0: for an unknown time.
func heldBy(t *testing.T, err error, owner string, d time.Duration) {
	t.Helper()
	gaveUp(t, err, ErrHeld)
	var held *OpError
	if !errors.As(err, &held) || held.Owner != owner || held.Until.IsZero() != (d == 0) ||
		d > 0 && (time.Until(held.Until)-d).Abs() > 10*time.Millisecond {
		t.Errorf("err = %v, want held by %q for %v", err, owner, d)
	}
}

// acquireFor gives up after d.
func acquireFor(t *testing.T, k *Keeper, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := k.Acquire(ctx, "job")
	return err
}

func unanswered(op *core.Op) (lost, executed bool) { return op.Kind == core.OpAcquire, false }

func TestAcquireThatGivesUpSaysWhoHoldsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		a := newRig(t, r, "a", true, nil).keeperOf()
		b := newRig(t, r, "b", true, nil).keeperOf()
		h, err := a.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		heldBy(t, acquireFor(t, b, 5*time.Second), "a", 25*time.Second)
		heldBy(t, acquireFor(t, a, 5*time.Second), "a", 20*time.Second-300*time.Millisecond) // by another caller of this process
		heldBy(t, acquireFor(t, b, time.Minute), "a", 0)                                     // renewed since: for an unknown time

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = b.Do(ctx, "job", func(context.Context, int64) error {
			t.Error("called without the lease")
			return nil
		})
		gaveUp(t, err, ErrHeld)

		second := make(chan error, 2)
		for range 2 {
			go func() { second <- acquireFor(t, b, time.Minute) }()
		}
		pass(30 * time.Second)
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Errorf("the first who waited: %v", err)
		}
		heldBy(t, <-second, "b", 0)
	})
}

func TestAcquireThatGivesUpWhileRedisIsSilentDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		a, b := newRig(t, r, "a", true, nil), newRig(t, r, "b", true, nil)
		if _, err := a.keeperOf().Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		short, long := make(chan error, 1), make(chan error, 1)
		go func() { short <- acquireFor(t, b.keeperOf(), 35*time.Second) }() // after it has read the holder's expiry
		go func() { long <- acquireFor(t, b.keeperOf(), time.Minute) }()
		pass(time.Second)
		b.fake.set(mute)
		gaveUp(t, <-short, errUnknown)
		b.fake.set(nil)
		heldBy(t, <-long, "a", 0)
	})
}

func TestAcquireThatJoinsOthersHasHeardWhatTheyHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		a, b := newRig(t, r, "a", true, nil), newRig(t, r, "b", true, nil)
		if _, err := a.keeperOf().Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- acquireFor(t, b.keeperOf(), 5*time.Second) }()
		pass(time.Second)
		b.fake.set(unanswered) // so that the second caller gets no answer of its own
		heldBy(t, acquireFor(t, b.keeperOf(), time.Second), "a", 28*time.Second)
		b.fake.set(nil)
		<-got
	})
}

func TestReleaseThatGivesUpIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", true, nil)
		h, err := g.keeperOf().Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		g.fake.set(func(op *core.Op) (bool, bool) { return op.Kind == core.OpRelease, false })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gaveUp(t, h.Release(ctx), errUnknown)
		g.fake.set(nil)
	})
}

// A call may win a lease while the loop is busy, although its context ends meanwhile. The lease is released only if no other caller has it.
func TestCallThatGivesUpLeavesWhatAnotherHas(t *testing.T) { // G1
	const never = time.Hour
	type call struct{ at, ends time.Duration } // the loop is busy from 0 on, for 50 ms; an attempt takes 1 ms
	for _, c := range []struct {
		name  string
		calls []call
		kept  bool
	}{
		{"it is alone", []call{{-500 * time.Microsecond, 20 * time.Millisecond}}, false},
		{"another gives up too", []call{{-500 * time.Microsecond, 20 * time.Millisecond}, {-400 * time.Microsecond, 30 * time.Millisecond}}, false},
		{"another has had it all along", []call{{-time.Second, never}, {10 * time.Millisecond, 20 * time.Millisecond}}, true},
		{"another shares the attempt", []call{{-500 * time.Microsecond, 20 * time.Millisecond}, {-400 * time.Microsecond, never}}, true},
		{"another comes meanwhile", []call{{-500 * time.Microsecond, 20 * time.Millisecond}, {10 * time.Millisecond, never}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis()
				g := newRig(t, r, "a", false, nil)
				busy := time.Now().Add(5 * time.Second)
				for _, call := range c.calls {
					go func() {
						<-time.After(time.Until(busy.Add(call.at)))
						ctx, cancel := context.WithDeadline(t.Context(), busy.Add(call.ends))
						defer cancel()
						if ok, err := g.managerOf().TryAcquire(ctx, session); ok != (call.ends == never) {
							t.Errorf("the call that ends after %v: %v, %v", call.ends, ok, err)
						}
					}()
				}
				<-time.After(time.Until(busy))
				g.post(func() { <-time.After(50 * time.Millisecond) })
				pass(100 * time.Millisecond)
				if kept := r.owner(session) == "a" && g.managerOf().IsOwned(session); kept != c.kept {
					t.Errorf("owned %v, want %v", kept, c.kept)
				}
			})
		})
	}
}
