package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// switches makes another server the master in several ways: the master dies, hangs, is replaced once or twice by an operator, or is cut
// off with some clients.
func switches(more ...fault.Fault) []fault.Fault {
	return append([]fault.Fault{
		{At: settled, Kind: fault.RedisOutage, For: 60 * time.Second},
		{At: settled + 130*time.Second, Kind: fault.RedisFreeze, For: 25 * time.Second},
		{At: settled + 195*time.Second, Kind: fault.Crash, Target: fault.Owner, For: 45 * time.Second}, // others take its leases over
		{At: settled + 260*time.Second, Kind: fault.Failover},
		{At: settled + 340*time.Second, Kind: fault.FailoverTwice, Ms: 500},
		{At: settled + 420*time.Second, Kind: fault.MasterCut, For: 90 * time.Second},
	}, more...)
}

var _ = Describe("Another server becomes the master, and no lease has two owners", Label("sentinel"), func() {
	DescribeTable("whether the old one is gone, comes back, lives on, or is named again", holds,
		Entry("behind Sentinel, also when a replica comes back out of an old dump",
			sim.Scenario{
				Name: "sentinel", Topology: sim.TopologySentinel, Nodes: 4, Sessions: 20, Duration: 12 * time.Minute,
				Plan: switches(fault.Fault{At: settled + 560*time.Second, Kind: fault.ReplicaDump, For: ttl}),
			},
			"G1", "G2", "G3", "G4"),
		Entry("on a cluster, also when the leases' slot moves to another shard and when its shard goes down",
			sim.Scenario{
				Name: "cluster", Topology: sim.TopologyCluster, Nodes: 4, Sessions: 20, Duration: 14 * time.Minute,
				Plan: switches(
					fault.Fault{At: settled + 560*time.Second, Kind: fault.SlotMoved, For: ttl},
					fault.Fault{At: settled + 640*time.Second, Kind: fault.ShardDown, For: ttl}),
			},
			"G1", "G2", "G3", "G4"),
	)
	DescribeTable("without Replicas leases have two owners then, which is what these storms would show", breaks,
		Entry(nil, untold(builtin("old-master")), "G1"))
})

// untold is the scenario with instances that know of no replicas.
func untold(s sim.Scenario) sim.Scenario {
	s.Replicas = new(int)
	return s
}
