package lease

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

func TestStartAndStopInAnyOrder(t *testing.T) {
	_, client := bootstrapped(t)
	for range 20 {
		m, err := NewManager(client, ManagerConfig{Config: quick("")})
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
		if state(m.s.state.Load()) != stateStopped {
			t.Fatalf("state %v", state(m.s.state.Load()))
		}
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster())
	client := server.ClusterClient()
	cfg := ManagerConfig{Config: quick("a")}
	if _, err := NewManager(client, cfg); err == nil {
		t.Error("keys of many slots accepted on a cluster")
	}
	cfg.LeasePrefix, cfg.NodePrefix, cfg.EpochKey = "{poll}:lease:", "{poll}:node:", "{poll}:epoch"
	if err := storeOf(t, client, cfg).Bootstrap(t.Context()); err != nil {
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
