package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// On a cluster, the replicas of the leases' shard acknowledge, also after a failover of that shard and after the slot has moved.
func TestAcknowledgedOnAClusterLong(t *testing.T) { // G1
	if testing.Short() {
		t.Skip("a cluster of seven servers")
	}
	t.Parallel()
	c := redistest.StartClustered(t, "{x}")
	store, err := redisstore.New(c.Client(), redisstore.Options{Quarantine: time.Second, Replicas: 2, OpTimeout: 3 * time.Second,
		LeasePrefix: "{x}:lease:", NodePrefix: "{x}:node:", EpochKey: "{x}:epoch"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-tick.C {
		warnings, err := store.Check(t.Context())
		if err == nil && len(warnings) == 0 {
			break // both have acknowledged something
		}
		if time.Now().After(end) {
			t.Fatalf("two of two replicas are attached: %v, %v", warnings, err)
		}
	}
	epoch := ""
	granted := func(what string) {
		t.Helper()
		var counted *core.Answer
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
			op := &core.Op{Kind: core.OpAcquire, Epoch: epoch, Owner: "a", TTL: int64(time.Minute), Confirm: 1,
				Items: []core.Item{{ID: "x"}}}
			a := store.Do(context.Background(), op)
			if counted = a.Counted(op); counted.Failure == core.FailNone && counted.Results[0].Outcome != core.OutHeld && !counted.Stale {
				return
			}
			if a.Epoch != "" {
				epoch = a.Epoch
			}
		}
		t.Fatalf("%s: the lease is not had: %+v", what, counted)
	}
	granted("at the start")
	before := epoch
	c.Failover()
	granted("after a failover")
	if epoch == before {
		t.Error("another master began no epoch")
	}
	c.AwaitSettled()
	before = epoch
	c.Move()
	granted("after the slot has moved")
	if epoch == before {
		t.Error("another shard began no epoch")
	}
	c.AwaitSettled()
	op := &core.Op{Kind: core.OpRenew, Epoch: epoch, Owner: "a", TTL: int64(time.Minute), Confirm: 1, Items: []core.Item{{ID: "x"}}}
	if a := store.Do(context.Background(), op); a.Counted(op).Failure != core.FailNone {
		t.Errorf("renew: %+v", a)
	}
	for _, replica := range c.Replicas() {
		replica.Freeze()
	}
	if a := store.Do(context.Background(), op); a.Counted(op).Failure != core.FailUncounted {
		t.Errorf("with all replicas frozen: %+v", a)
	}
}
