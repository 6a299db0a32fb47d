package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

var _ = Describe("An instance that fails is replaced, never doubled", func() {
	DescribeTable("whatever becomes of it", holds,

		Entry("a crashed instance's sessions are polled by others once its leases expire",
			Label("US2-1"),
			sim.Scenario{
				Name: "crash", Nodes: 3, Sessions: 9, Duration: short,
				Plan: []fault.Fault{{At: settled, Kind: fault.Crash, Target: "node-1"}},
			},
			"G1", "G2", "G3", "G5", "G8"),

		Entry("a restarted process is another instance: it cannot renew what it held, it must acquire like anyone",
			Label("US2-3"),
			sim.Scenario{
				Name: "restart", Nodes: 3, Sessions: 9, Duration: short,
				Plan: []fault.Fault{{At: settled, Kind: fault.Crash, Target: "node-1", For: 5 * time.Second}},
			},
			"G1", "G2", "G3", "G5", "G10"),

		Entry("an instance cut off from Redis stops polling, although it still reaches what it polls, and others take over",
			Label("US2-2", "EC-4"),
			sim.Scenario{
				Name: "partition", Nodes: 5, Sessions: 20, Duration: 8 * time.Minute,
				Plan: []fault.Fault{
					{At: settled, Kind: fault.BlackHole, Target: "node-1", For: 2 * ttl},
					{At: settled + 90*time.Second, Kind: fault.Cut, Target: "node-2", For: 2 * ttl},
					{At: settled + 180*time.Second, Kind: fault.RepliesLost, Target: "node-3", For: 2 * ttl},
					{At: settled + 270*time.Second, Kind: fault.RequestsLost, Target: "node-4", For: 2 * ttl},
				},
			},
			"G1", "G2", "G3", "G4", "G8"),

		Entry("5 instances that start in the same instant, twice, share 10 sessions: one owner each, losers are refused",
			Label("US3-1", "US3-2", "EC-5"),
			sim.Scenario{
				Name: "all-at-once", Nodes: 5, Sessions: 10, Duration: 4 * time.Minute,
				Plan: []fault.Fault{{At: settled, Kind: fault.CrashAll, For: 5 * time.Second}},
			},
			"G1", "G2", "G3", "G6", "G10"),

		Entry("a renewal extends only what the instance still owns: deleted or taken over meanwhile, the lease is lost",
			Label("US3-3"),
			sim.Scenario{
				Name: "safe-renewal", Nodes: 3, Sessions: 9, Duration: 5 * time.Minute,
				Plan: []fault.Fault{
					{At: settled, Kind: fault.KeyDelete, Target: "session-1"},
					{At: settled + 30*time.Second, Kind: fault.Freeze, Target: "node-2", For: 2 * ttl},
				},
			},
			"G1", "G2", "G3", "G10"),

		Entry("a process frozen exactly between its check and its send does no harm that a fence can prevent",
			Label("US3"),
			sim.Scenario{
				Name: "check-send", Nodes: 3, Sessions: 9, Duration: short,
				Plan: []fault.Fault{{At: settled, Kind: fault.CheckSend, Target: "node-2"}},
			},
			"G1", "G2", "G3"),

		Entry("a poll that takes longer than a lease lives goes on, because the lease is renewed meanwhile, and moves after it",
			Label("EC-2"),
			sim.Scenario{
				Name: "long-polls", Nodes: 3, Sessions: 9, Duration: 4 * time.Minute, LongPolls: true,
				Timings: sim.Timings{PollTimeout: 3 * ttl},
				Plan: []fault.Fault{
					{At: settled, Kind: fault.PollSlow, For: 2 * ttl, Ms: (2 * ttl).Milliseconds()},
					{At: settled + 20*time.Second, Kind: fault.Join, Target: "node-4"},
				},
			},
			"G1", "G2", "G3", "G10"),
	)

	DescribeTable("in the specification's own 30 seconds", holds,

		Entry("failover takes no longer than a lease lives, and nobody's sessions are forgotten when the fleet changes",
			Label("SC-002", "SC-006", "speed-1"),
			sim.Scenario{
				Name: "seed-timings-fleet", Nodes: 4, Sessions: 24, Speed: 1, Duration: 200 * time.Second,
				Plan: []fault.Fault{
					{At: 15 * time.Second, Kind: fault.Crash, Target: "node-1"},
					{At: 50 * time.Second, Kind: fault.Leave, Target: "node-2"},
					{At: 65 * time.Second, Kind: fault.Join, Target: "node-5"},
					{At: 80 * time.Second, Kind: fault.BlackHole, Target: "node-3", For: 40 * time.Second},
				},
			},
			"G1", "G2", "G3", "G4", "G5", "G6", "G8", "G13"),
	)
})
