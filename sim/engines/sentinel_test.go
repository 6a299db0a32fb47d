package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// On real servers no lease has two owners while an old master lives on, while a replica is back out of an old dump, or while their slot
// moves, and leases change owners meanwhile.
func TestOldMasterOnRealServers(t *testing.T) { // G1
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") == "" {
		t.Skip("redis-server is not installed")
	}
	node := filepath.Join(t.TempDir(), "node")
	if out, err := exec.Command("go", "build", "-o", node, "github.com/leasestorm/leasestorm/cmd/node").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cut := fault.Fault{At: settled, Kind: fault.MasterCut, For: 3 * ttl}
	for topology, plan := range map[string][]fault.Fault{
		sim.TopologySentinel: {cut, {At: settled + 4*ttl, Kind: fault.ReplicaDump, For: ttl}},
		sim.TopologyCluster:  {cut, {At: settled + 4*ttl, Kind: fault.SlotMoved, For: ttl}},
	} {
		t.Run(topology, func(t *testing.T) {
			c, err := sim.Scenario{
				Name: "old-master-" + topology, Topology: topology, Nodes: 4, Sessions: 8, Seed: 1, Duration: 260 * time.Second, Speed: 10, Plan: plan,
			}.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			redis := sim.RedisChoice{Kind: "server", Servers: c.Servers(), Cluster: topology == sim.TopologyCluster}
			r, err := play(t, c, redis, sim.Launcher{Node: []string{node}})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Report.Guarantees {
				if v.ID == "G1" && (v.Verdict != check.Pass || v.Exercised == 0) {
					t.Errorf("G1 is %s, exercised %d times: %s", v.Verdict, v.Exercised, v.Detail)
				}
			}
			for _, note := range r.Outcome.Notes {
				if strings.Contains(note, "was not injected") {
					t.Error(note)
				}
			}
		})
	}
}
