package sentinel

import (
	"errors"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// A fleet begins to count replicas, gets one more and loses it again, in the phases of docs/replicas.md: no lease ever has two owners,
// and what lives on owns what it owned (G1).
func TestResizeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute; make long plays it")
	}
	f := Start(t, 0)
	from := time.Now()

	f.restart(2) // begin: the replicas are attached already
	f.play(Failover)

	f.restart(3) // grow: first the instances, who need no more than the replicas that there are; then the node
	third := redistest.Start(t, redistest.Args("--replica-priority", "0"))
	f.sentinel.Attach(third)
	f.awaitOwned()

	third.Kill() // shrink: first the node, then the instances, then the number
	f.restart(2)
	before, _, err := lease.SetReplicas(t.Context(), f.client(), f.config(""))
	if err != nil || before != 2 {
		t.Errorf("lowered from %d: %v", before, err)
	}
	for _, s := range f.sentinel.Sentinels { // so that they forget the third
		s.Do("SENTINEL", "RESET", redistest.MasterName)
	}
	f.redis.AwaitSettled()
	f.awaitOwned()
	f.play(Failover)

	doubled, longest, idle := f.record.since(from, time.Now())
	t.Logf("%d leases with two owners, for %v at most; none for %v at most", doubled, longest, idle)
	if doubled > 0 {
		t.Errorf("%d leases had two owners, for %v", doubled, longest)
	}
	if _, _, err := lease.SetReplicas(t.Context(), f.client(), f.config("")); err != nil {
		t.Errorf("a second time: %v", err)
	}
	f.common.Replicas = 1 // both acknowledge: a majority of fewer is none
	if _, _, err := lease.SetReplicas(t.Context(), f.client(), f.config("")); !errors.Is(err, redisstore.ErrReplicas) {
		t.Errorf("lowered below what acknowledges: %v", err)
	}
}
