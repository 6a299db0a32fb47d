package lease

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// listener records the events of one keeper. It runs in the loop.
type listener struct {
	kinds []EventKind
	hold  *Lease
}

func (l *listener) notify(e Event) {
	if e.Kind != EventRenewing && e.Kind != EventRenewed {
		l.kinds = append(l.kinds, e.Kind)
	}
	if e.Kind == EventAcquired {
		l.hold = e.Lease
	}
}

func (l *listener) took(t *testing.T, want ...EventKind) {
	t.Helper()
	if !slices.Equal(l.kinds, want) {
		t.Errorf("events %v, want %v", l.kinds, want)
	}
	l.kinds = nil
}

func TestWantWaitsWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		var la, lb listener
		a := newRig(t, r, "a", true, func(c *ManagerConfig) { c.Notify = la.notify }).keeperOf()
		b := newRig(t, r, "b", true, func(c *ManagerConfig) { c.Notify = lb.notify }).keeperOf()
		for _, k := range []*Keeper{a, b} {
			if err := (innerKeeper{k}).Want("job"); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		la.took(t, EventAcquiring, EventAcquired)
		lb.took(t, EventAcquiring, EventAcquireFailed)
		pass(time.Minute)
		lb.took(t)
		la.hold.Drop()
		pass(10 * time.Millisecond)
		la.took(t, EventReleased)
		lb.took(t, EventAcquiring, EventAcquired)

		// A term is wanted once: a does not acquire it again by itself, and neither does b after losing the lease.
		lb.hold.Drop()
		pass(time.Minute)
		if owner := r.owner("job"); owner != "" {
			t.Errorf("owned by %q, whom nobody asked", owner)
		}
	})
}

func TestUnwantEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		var l listener
		a := newRig(t, r, "a", true, nil).keeperOf()
		b := newRig(t, r, "b", true, func(c *ManagerConfig) { c.Notify = l.notify }).keeperOf()
		h, err := a.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := (innerKeeper{b}).Want("job"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		innerKeeper{b}.Unwant("job")
		pass(time.Second)
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		l.took(t, EventAcquiring, EventAcquireFailed)
		if owner := r.owner("job"); owner != "" {
			t.Errorf("owned by %q", owner)
		}
	})
}

func TestWantAndAcquireShareALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		var l listener
		k := newRig(t, r, "a", true, func(c *ManagerConfig) { c.Notify = l.notify }).keeperOf()
		h, err := k.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := (innerKeeper{k}).Want("job"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if l.hold == h || !l.hold.Valid() {
			t.Error("the standing want did not get the lease after the caller's term")
		}
		l.hold.Drop()
		pass(time.Second)
	})
}
