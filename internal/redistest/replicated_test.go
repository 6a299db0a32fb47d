package redistest_test

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// After a failover, the new master has the written data, and the old master becomes its replica.
func TestReplicated(t *testing.T) {
	r := redistest.StartReplicated(t)
	if err := r.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	old := r.Master()
	if now := r.Failover(); now == old || now.Do("GET", "k") != "v" {
		t.Fatalf("the new master %s has %v", now.Addr(), now.Do("GET", "k"))
	}
	r.AwaitSettled()
	if err := r.Client().Set(t.Context(), "k", "w", 0).Err(); err != nil || r.Master().Do("GET", "k") != "w" {
		t.Fatalf("a new client does not reach the new master: %v", err)
	}
}
