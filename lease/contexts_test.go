package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A context under several terms ends with the first of them, and with its parent.
func TestWithHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", true, nil)
		take := func(name string) *Lease {
			h, err := g.keeperOf().Acquire(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		a, b := take("a"), take("b")
		outer, leave := context.WithCancel(t.Context())
		running, end := withHolds(outer, a, b)
		defer end()
		for range 3 { // an ended context is released before its terms end
			one, endOne := withHolds(t.Context(), a, b)
			endOne()
			if !errors.Is(context.Cause(one), context.Canceled) || len(a.ending.under) > 2 {
				t.Errorf("ended with %v; its term knows of %d contexts", context.Cause(one), len(a.ending.under))
			}
		}
		left, endLeft := withHolds(outer, b)
		defer endLeft()
		if err := context.Cause(running); err != nil {
			t.Errorf("ended with %v, and both terms go on", err)
		}
		if err := b.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, ctx := range map[string]context.Context{"of both": running, "of that": left, "its own": b.Context()} {
			if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
				t.Errorf("the context %s ended with %v, and one term is over", name, err)
			}
		}
		late, endLate := withHolds(t.Context(), a, b)
		defer endLate()
		if err := context.Cause(late); !errors.Is(err, ErrLost) {
			t.Errorf("began with %v under a term that is over", err)
		}
		leave()
		other, endOther := withHolds(outer, a)
		defer endOther()
		if err := context.Cause(other); !errors.Is(err, context.Canceled) || a.Context().Err() != nil {
			t.Errorf("ended with %v, its term with %v", err, a.Context().Err())
		}
	})
}
