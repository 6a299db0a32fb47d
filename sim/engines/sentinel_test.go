package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// On real servers no lease has two owners while an old master lives on, and leases change owners meanwhile.
func TestOldMasterOnRealServers(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") == "" {
		t.Skip("redis-server is not installed")
	}
	node := filepath.Join(t.TempDir(), "node")
	if out, err := exec.Command("go", "build", "-o", node, "github.com/leasestorm/leasestorm/cmd/node").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, err := sim.Scenario{
		Name: "old-master", Topology: sim.TopologySentinel, Nodes: 4, Sessions: 8, Seed: 1, Duration: 220 * time.Second, Speed: 10,
		Plan: []fault.Fault{{At: settled, Kind: fault.MasterCut, For: 3 * ttl}},
	}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	r, err := play(t, c, sim.RedisChoice{Kind: "server", Servers: c.Servers()}, sim.Launcher{Node: []string{node}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Report.Guarantees {
		if v.ID == "G1" && (v.Verdict != check.Pass || v.Exercised == 0) {
			t.Errorf("G1 is %s, exercised %d times: %s", v.Verdict, v.Exercised, v.Detail)
		}
	}
}
