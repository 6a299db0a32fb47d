package redistest_test

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

func TestClusteredLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of seven servers")
	}
	c := redistest.StartClustered(t, "{x}")
	client := c.Client()
	set := func(value string) {
		t.Helper()
		if err := client.Set(t.Context(), "{x}:key", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	first := c.Master()
	second := c.Failover()
	c.AwaitSettled()
	c.Move()
	c.AwaitSettled()
	third := c.Master()
	if got := client.Get(t.Context(), "{x}:key").Val(); first == second || second == third || got != "1" {
		t.Fatalf("%s, %s, %s: %q", first.Addr(), second.Addr(), third.Addr(), got)
	}
	third.Kill()
	c.AwaitSwitch(third)
	third.Restart(false)
	c.AwaitSettled()
	c.Move()
	c.AwaitSettled()
	set("2")
}
