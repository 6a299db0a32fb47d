package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// What is written is on the new master after a switch, and the old one becomes its replica. On a machine that stalls the
// sentinels may switch unasked, so the test says nothing of which server is the master.
func TestReplicated(t *testing.T) {
	r := redistest.StartReplicated(t)
	var have *redis.Cmd
	if _, err := r.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "k", "v", 0)
		have = p.Do(t.Context(), "WAIT", 2, 2000)
		return nil
	}); err != nil || have.Val() != int64(2) {
		t.Fatalf("%v replicas have it, %v", have.Val(), err)
	}
	old := r.Master()
	old.Kill()
	if now := r.AwaitSwitch(old); now.Do("GET", "k") != "v" {
		t.Fatalf("the new master %s has %v", now.Addr(), now.Do("GET", "k"))
	}
	r.Rejoin(old)
	r.AwaitSettled()
	r.Failover()
	r.AwaitSettled()
}
