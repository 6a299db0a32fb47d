package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestSessionsAreSharedAndFollowTheirInstances(t *testing.T) { // G6, G13
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		ids := sessionIDs(12)
		var broken atomic.Int32
		source := func(c *ManagerConfig) {
			c.Sessions = func(context.Context) ([]string, error) {
				switch broken.Load() {
				case 1:
					return nil, errors.New("source is broken")
				case 2:
					panic("source is broken")
				}
				return append([]string{"no UUID"}, ids...), nil
			}
		}
		a := newRig(t, r, "a", false, source)
		pass(5 * time.Second)
		if got := len(a.managerOf().OwnedSessions()); got != 12 {
			t.Fatalf("alone it owns %d of 12", got)
		}
		if state(a.managerOf().s.state.Load()) != stateSettled {
			t.Errorf("state %v, want settled", state(a.managerOf().s.state.Load()))
		}
		b := newRig(t, r, "b", false, source)
		pass(15 * time.Second)
		if na, nb := len(a.managerOf().OwnedSessions()), len(b.managerOf().OwnedSessions()); na != 6 || nb != 6 {
			t.Fatalf("owned %d and %d, want 6 and 6", na, nb)
		}
		for how := range int32(2) {
			broken.Store(how + 1)
			pass(time.Minute)
			if na := len(a.managerOf().OwnedSessions()); na != 6 {
				t.Errorf("owns %d after its source broke (%d), want 6", na, how+1)
			}
		}
		if err := a.managerOf().Stop(); err != nil {
			t.Fatal(err)
		}
		pass(250 * time.Millisecond)
		if nb := len(b.managerOf().OwnedSessions()); nb != 12 {
			t.Errorf("owns %d after the other stopped, want 12", nb)
		}
		live, err := b.managerOf().GetLiveNodes(t.Context())
		if err != nil || fmt.Sprint(live) != "[b]" {
			t.Errorf("live %v, %v", live, err)
		}
		if owner, err := b.managerOf().PreferredOwner(t.Context(), ids[0]); owner != "b" || err != nil {
			t.Errorf("preferred owner %q, %v", owner, err)
		}
		if n := a.log.FilterField(zap.String("event", "sessionRefused")).Len(); n != 1 {
			t.Errorf("%d entries on the ID that is no UUID, want 1", n)
		}
	})
}

func TestStuckWorkLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		var hold *Lease
		g := newRig(t, r, "a", false, func(c *ManagerConfig) {
			c.Notify = func(e Event) {
				if e.Kind == EventAcquired {
					hold = e.Lease
				}
			}
		})
		m := g.managerOf()
		if _, err := m.TryAcquire(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		innerLease{hold}.Abandon()
		synctest.Wait()
		if m.IsOwned(session) || r.owner(session) != "a" {
			t.Error("abandoned: must not be believed, and the key must be left to expire")
		}
		if ok, err := m.TryAcquire(t.Context(), session); ok || err != nil {
			t.Errorf("TryAcquire while stuck = %v, %v", ok, err)
		}
		pass(31 * time.Second)
		if r.owner(session) != "" {
			t.Error("an abandoned lease was renewed")
		}
		innerLease{hold}.Recovered()
		if ok, err := m.TryAcquire(t.Context(), session); !ok || err != nil {
			t.Errorf("TryAcquire after Recovered = %v, %v", ok, err)
		}
	})
}

// sessionIDs returns n session IDs, the same every time.
func sessionIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i)
	}
	return ids
}

// A stop during an acquisition leaves nothing behind.
func TestStopWaitsForWhatItMayStillWin(t *testing.T) { // G13
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		pass(time.Second)
		go func() { _, _ = g.keeperOf().Acquire(t.Context(), "job") }()
		<-time.After(500 * time.Microsecond)
		if r.owner("job") != "a" {
			t.Fatal("the acquisition is not under way")
		}
		if err := g.keeperOf().Stop(); err != nil {
			t.Error(err)
		}
		if owner := r.owner("job"); owner != "" {
			t.Errorf("%q holds the lease after its clean stop", owner)
		}
	})
}

// During a quarantine nobody can acquire a lease that is handed over, so work that was asked to end, and still runs, continues.
func TestHandoverIsTakenBackWhenRedisForgets(t *testing.T) { // G9
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		ids := sessionIDs(2)
		asked, kept := make(chan *Lease, 2), make(chan *Lease, 2)
		share := func(c *ManagerConfig) {
			c.Sessions = func(context.Context) ([]string, error) { return slices.Clone(ids), nil }
		}
		a := newRig(t, r, "a", false, func(c *ManagerConfig) {
			share(c)
			c.Notify = func(e Event) {
				switch e.Kind {
				case EventYield:
					asked <- e.Lease
				case EventKept:
					kept <- e.Lease
				}
			}
		})
		pass(5 * time.Second)
		newRig(t, r, "b", false, share)
		h := <-asked
		if a.managerOf().IsOwned(h.Name()) {
			t.Error("owned although it is asked for")
		}
		r.forget(a.cfg.TTL)
		if got := <-kept; got != h {
			t.Fatalf("kept %s, want %s", got.Name(), h.Name())
		}
		pass(10 * time.Millisecond)
		if !a.managerOf().IsOwned(h.Name()) || !h.Valid() {
			t.Error("kept and not owned")
		}
		h2 := <-asked // after the quarantine, it is requested again
		h2.Drop()
		pass(time.Second)
		if got := len(a.managerOf().OwnedSessions()); got != 1 {
			t.Errorf("owns %d of 2 in the end", got)
		}
		close(asked)
		for h := range asked {
			h.Drop()
		}
	})
}
