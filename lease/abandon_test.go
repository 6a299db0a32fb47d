package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// overtaken returns a lease whose term ended because its key was deleted, and its rig.
func overtaken(t *testing.T) (*fakeRedis, *Keeper, *Lease) {
	r := newFakeRedis()
	g := newRig(t, r, "a", true, nil)
	pass(time.Second)
	h, err := g.keeperOf().Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	delete(r.leases, "x")
	r.mu.Unlock()
	g.event(core.Event{Kind: core.EvRenew, ID: "x"})
	pass(time.Second)
	if !h.over() {
		t.Fatal("the term goes on")
	}
	return r, g.keeperOf(), h
}

// An ended term cannot end the next caller's term. While its work is stuck, this instance cannot acquire the lease.
func TestAbandonIsOfOneTerm(t *testing.T) { // G8
	synctest.Test(t, func(t *testing.T) {
		r, k, first := overtaken(t)
		second, err := k.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		innerLease{first}.Abandon()
		pass(2 * time.Second)
		if !second.Valid() {
			t.Error("the next term was ended")
		}
		if err := second.Release(t.Context()); err != nil || r.owner("x") != "" {
			t.Errorf("release of the next term: %v, the lease is %q's", err, r.owner("x"))
		}
		innerLease{second}.Recovered()
		if _, err := k.TryAcquire(t.Context(), "x"); err == nil {
			t.Error("acquired while the first term's work is stuck")
		}
		innerLease{first}.Recovered()
		if _, err := k.TryAcquire(t.Context(), "x"); err != nil {
			t.Errorf("TryAcquire after it returned: %v", err)
		}
	})
}
