package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAShorterTTLIsRenewedInTimeAndPassesOnSooner(t *testing.T) { // G1, G5
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		r := newFakeRedis()
		a, b := newRig(t, r, "a", true, nil), newRig(t, r, "b", true, nil)
		long, err := a.keeperOf().Acquire(t.Context(), "long")
		if err != nil {
			t.Fatal(err)
		}
		h, err := a.keeperOf().TryAcquire(t.Context(), "job", WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			pass(ttl / 4)
			if until, ok := h.Deadline(); !ok || time.Until(until) > ttl || time.Until(until) < ttl/2 {
				t.Fatalf("valid %v for %v", ok, time.Until(until))
			}
		}
		a.fake.set(mute)
		begin := time.Now()
		next, err := b.keeperOf().Acquire(t.Context(), "job", WithTTL(2*ttl))
		if took := time.Since(begin); err != nil || took > ttl+10*time.Millisecond || next.Fence() <= h.Fence() || h.Valid() {
			t.Errorf("acquired after %v, %v", took, err)
		}
		if pass(ttl); !errors.Is(context.Cause(h.Context()), ErrLost) || long.Context().Err() != nil {
			t.Errorf("after the TTL of one: %v, and the other: %v", context.Cause(h.Context()), context.Cause(long.Context()))
		}
	})
}

// A term has the TTL of its first caller, even if an earlier caller has given up.
func TestEachTermHasTheTTLOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		other, err := newRig(t, r, "other", true, nil).keeperOf().Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		k := newRig(t, r, "a", true, nil).keeperOf()
		ctx, giveUp := context.WithCancel(t.Context())
		go func() { _, _ = k.Acquire(ctx, "job", WithTTL(20*time.Second)) }()
		synctest.Wait()
		got := make(chan *Lease)
		for _, opts := range [][]Option{{WithTTL(2 * time.Second)}, nil} {
			go func() {
				h, _ := k.Acquire(t.Context(), "job", opts...)
				got <- h
			}()
			synctest.Wait()
		}
		giveUp()
		synctest.Wait()
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, ttl := range []time.Duration{2 * time.Second, DefaultTTL} {
			h := <-got
			if until, _ := h.Deadline(); time.Until(until) > ttl || time.Until(until) < ttl*4/5 {
				t.Errorf("held for %v, want nearly %v", time.Until(until), ttl)
			}
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestInvalidTTLOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRig(t, newFakeRedis(), "a", true, nil).keeperOf()
		for _, ttl := range []time.Duration{-1, 599 * time.Millisecond, time.Second + 1, DefaultTTL + time.Millisecond} {
			if _, err := k.TryAcquire(t.Context(), "job", WithTTL(ttl)); !errors.Is(err, ErrInvalidConfig) {
				t.Errorf("%v: %v", ttl, err)
			}
		}
		for _, ttl := range []time.Duration{600 * time.Millisecond, DefaultTTL} {
			if err := k.TryDo(t.Context(), "job", func(context.Context, int64) error { return nil }, WithTTL(ttl)); err != nil {
				t.Errorf("%v: %v", ttl, err)
			}
		}
	})
}
