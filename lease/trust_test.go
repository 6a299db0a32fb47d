package lease

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
)

// A loop that is not scheduled (here, a listener blocks it just before the renewal) cannot notice an unanswered renewal. Belief still ends
// at the timeout.
func TestUnansweredRenewalEndsBeliefWithoutTheLoop(t *testing.T) { // G4
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan *Lease, 1)
		renewing, goOn := make(chan bool, 100), make(chan bool)
		g := newRig(t, newFakeRedis(), "a", false, func(c *ManagerConfig) {
			c.Notify = func(e Event) {
				switch e.Kind {
				case EventAcquired:
					hold <- e.Lease
				case EventRenewing:
					renewing <- true
					<-goOn
				case EventYield:
					e.Lease.Drop()
				}
			}
		})
		m := g.managerOf()
		if ok, err := m.TryAcquire(t.Context(), session); !ok || err != nil {
			t.Fatal(ok, err)
		}
		h := <-hold
		window, _ := h.Deadline()
		<-renewing // and the loop hangs
		sent := time.Now()
		if !m.IsOwned(session) || !h.Valid() {
			t.Error("not believed while the renewal may still be answered")
		}
		if until, _ := h.Deadline(); !until.Equal(window) {
			t.Errorf("the window ends in %v, want %v: a renewal under way does not shorten it", time.Until(until),
				time.Until(window))
		}
		pass(g.cfg.OpTimeout - time.Millisecond)
		if !m.IsOwned(session) {
			t.Error("not believed before the time-out")
		}
		pass(time.Millisecond)
		if _, believed := h.Deadline(); m.IsOwned(session) || h.Valid() || believed || len(m.OwnedSessions()) != 0 {
			t.Errorf("believed %v after the send of a renewal without answer", time.Since(sent))
		}
		close(goOn)
		pass(time.Second)
		if until, _ := h.Deadline(); !m.IsOwned(session) || !h.Valid() || !until.After(window) {
			t.Error("not believed after a renewal that succeeded")
		}
	})
}

// A window ends when either clock reaches its end: the monotonic clock may stand still while the machine sleeps, and the wall clock may be
// set back.
func TestWindowEndsByWhicheverClockIsFirst(t *testing.T) { // G1
	synctest.Test(t, func(t *testing.T) {
		h := &Lease{in: &instance{base: time.Now()}}
		mono := func(d time.Duration) core.Time { return core.Time(time.Since(h.in.base) + d) }
		wall := func(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }
		h.believe(policy.Belief{Mono: mono(time.Minute), Wall: wall(time.Minute)})
		if !h.Valid() {
			t.Error("not believed while both clocks are before the end")
		}
		pass(time.Second)
		h.believe(policy.Belief{Mono: mono(-1), Wall: wall(time.Minute)})
		if h.Valid() {
			t.Error("believed after the end by the monotonic clock: somebody set the wall clock back")
		}
		h.believe(policy.Belief{Mono: mono(time.Minute), Wall: wall(-1)})
		if h.Valid() {
			t.Error("believed after the end by the wall clock: the machine slept")
		}
	})
}

// A thousand leases are released in ten requests, whether the instance or its listener releases them.
func TestDrainReleasesInBatches(t *testing.T) { // G13
	for _, tt := range []struct {
		name   string
		change func(*ManagerConfig)
	}{
		{"unheard", nil},
		{"dropped by the listener", func(c *ManagerConfig) {
			c.Notify = func(e Event) {
				if e.Kind == EventYield {
					e.Lease.Drop()
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeRedis()
				g := newRig(t, r, "a", false, tt.change)
				m := g.managerOf()
				ids := sessionIDs(1000)
				var wg sync.WaitGroup
				for _, id := range ids {
					wg.Go(func() {
						if ok, err := m.TryAcquire(t.Context(), id); !ok || err != nil {
							t.Error(ok, err)
						}
					})
				}
				wg.Wait()
				var mu sync.Mutex
				calls, items := 0, 0
				g.fake.set(func(op *core.Op) (lost, executed bool) {
					if op.Kind == core.OpRelease {
						mu.Lock()
						defer mu.Unlock()
						calls++
						items += len(op.Items)
					}
					return false, true
				})
				if err := m.Stop(); err != nil {
					t.Fatal(err)
				}
				if calls > 10 || items != 1000 {
					t.Errorf("%d leases were released in %d requests, want 1000 in 10", items, calls)
				}
				for _, id := range ids {
					if r.owner(id) != "" {
						t.Fatalf("%s was not released", id)
					}
				}
			})
		})
	}
}
