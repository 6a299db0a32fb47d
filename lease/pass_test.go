package lease

import (
	"slices"
	"testing"
	"time"
)

// A moved lease is acquired under a higher fence. Of a dead owner, exactly its leases are deleted.
func TestLeasesArePassedOn(t *testing.T) {
	_, client := bootstrapped(t)
	keeper := func(id string) *Keeper {
		k, err := NewKeeper(client, quick(id))
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k.Stop() })
		return k
	}
	a, b := keeper("a"), keeper("b")
	ctx := t.Context()
	if err := client.Set(ctx, "lease:name:x", "session:1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	h, err := (innerKeeper{a}).Adopt(ctx, "x", "session:1")
	if err != nil || !h.Valid() || h.Fence() == 0 {
		t.Fatalf("adopt: %+v %v", h, err)
	}
	if left := client.PTTL(ctx, "lease:name:x").Val(); left > quick("").TTL {
		t.Errorf("an adopted lease lives for %v", left)
	}
	if _, err := (innerKeeper{b}).Adopt(ctx, "x", "session:1"); err == nil {
		t.Error("a lease was adopted from somebody who does not hold it")
	}
	y, err := a.TryAcquire(ctx, "y")
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := (innerKeeper{b}).Evict(ctx, "c", "x", "y", "z"); err != nil || len(gone) != 0 {
		t.Errorf("evicted %v of an owner that holds none: %v", gone, err)
	}
	if gone, err := (innerKeeper{b}).Evict(ctx, "a", "x", "y", "z"); err != nil || !slices.Equal(gone, []string{"x", "y"}) {
		t.Errorf("evicted %v, %v", gone, err)
	}
	again, err := b.TryAcquire(ctx, "y")
	if err != nil || again.Fence() <= y.Fence() {
		t.Errorf("after the eviction: %+v %v", again, err)
	}
	if (innerLease{y}).WindowEnd().Before(time.Now()) {
		t.Error("the window of an evicted term ended before its time")
	}
}
