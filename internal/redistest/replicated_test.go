package redistest_test

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// What is written is on the new master after a switch, and the old one becomes its replica.
func TestReplicated(t *testing.T) {
	r := redistest.StartReplicated(t)
	c := r.Client()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	old := r.Master()
	old.Kill()
	if now := r.AwaitSwitch(old); now == old || r.Master() != now {
		t.Fatalf("the master after %s is %s, then %s", old.Addr(), now.Addr(), r.Master().Addr())
	}
	if got := r.Master().Do("GET", "k"); got != "v" {
		t.Fatalf("the new master has %v", got)
	}
	r.Rejoin(old)
	r.AwaitSettled()
	if now := r.Failover(); now != old {
		t.Fatalf("the master is %s, want %s again", now.Addr(), old.Addr())
	}
}
