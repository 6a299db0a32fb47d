package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Five instances and ten callers fight over three leases while connections are cut: nobody is ever inside together with
// somebody else, and fences only grow (G1, G3).
func TestRedisContentionLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm on a real server")
	}
	server, client := bootstrapped(t)
	type guarded struct {
		inside atomic.Int32
		fence  atomic.Int64
		times  atomic.Int32
	}
	leases := make([]guarded, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 5 {
		k := startKeeper(t, client, quick(fmt.Sprintf("k%d", i)))
		for j := range 2 {
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() {
				for ctx.Err() == nil {
					n := rnd.IntN(len(leases))
					g := &leases[n]
					err := k.Do(ctx, fmt.Sprintf("lease-%d", n), func(work context.Context, fence int64) error {
						if now := g.inside.Add(1); now != 1 {
							t.Errorf("%d inside at once", now)
						}
						defer g.inside.Add(-1)
						if before := g.fence.Swap(fence); before >= fence {
							t.Errorf("fence %d after %d", fence, before)
						}
						g.times.Add(1)
						select {
						case <-time.After(time.Duration(rnd.IntN(3)) * time.Millisecond):
						case <-work.Done():
						}
						return nil
					})
					if err != nil && ctx.Err() == nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknown) {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Go(func() {
		tick := time.NewTicker(700 * time.Millisecond)
		defer tick.Stop()
		often := func() bool { // each was held
			for i := range leases {
				if leases[i].times.Load() < 5 {
					return false
				}
			}
			return true
		}
		for cuts := 1; ; cuts++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				if cuts >= 4 && often() {
					cancel()
				}
			}
		}
	})
	wg.Wait()
	for i := range leases {
		if n := leases[i].times.Load(); n < 5 {
			t.Errorf("lease %d was held %d times only", i, n)
		}
	}
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	_, client := bootstrapped(t)
	for range 20 {
		m, err := New(client, quick(""))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := m.Start(context.Background()); err != nil && !errors.Is(err, ErrStopped) {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := m.Stop(); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() { _, _ = m.TryAcquire(context.Background(), session) })
		}
		wg.Wait()
		if m.State() != StateStopped {
			t.Fatalf("state %v", m.State())
		}
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster())
	client := server.ClusterClient()
	cfg := quick("a")
	if _, err := New(client, cfg); err == nil {
		t.Error("keys of many slots accepted on a cluster")
	}
	cfg.LeasePrefix, cfg.NodePrefix, cfg.EpochKey = "{poll}:lease:", "{poll}:node:", "{poll}:epoch"
	if err := Bootstrap(t.Context(), client, cfg); err != nil {
		t.Fatal(err)
	}
	m := startManager(t, client, cfg)
	events := newHeard()
	defer m.Subscribe(events.add)()
	if ok, err := m.TryAcquire(t.Context(), session); !ok || err != nil {
		t.Fatal(ok, err)
	}
	events.wait(t, "a renewal", func(e Event) bool { return e.Kind == EventRenewed })
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
	if n := client.Exists(t.Context(), "{poll}:lease:"+session).Val(); n != 0 {
		t.Error("not released")
	}
}
