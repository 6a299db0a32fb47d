package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Times of the specification, for plans and fleets.
const (
	ttl     = 30 * time.Second
	settled = 35 * time.Second // the fleet has started, is balanced, and has been unchanged for a TTL
	short   = 3 * time.Minute  // a storm of one or two faults, and its calm
)

var _ = Describe("Work is shared without anybody saying how", func() {
	DescribeTable("and follows the fleet", holds,

		Entry("a lone instance takes every session and polls it, also those that come later",
			Label("US1-1"),
			sim.Scenario{
				Name: "lone-instance", Nodes: 1, Sessions: 9, Duration: short,
				Plan: []fault.Fault{{At: settled, Kind: fault.SessionAdd, Ms: 3}},
			},
			"G6", "G8", "G10", "G12"), // with one instance, one owner and one poller prove nothing

		Entry("an instance that joins gets its share at once: what it needs moves, nothing else, and no poll is missed",
			Label("US1-2", "US4-2", "US4-3"),
			sim.Scenario{
				Name: "third-instance", Nodes: 2, Sessions: 10, Duration: short,
				Plan: []fault.Fault{{At: settled, Kind: fault.Join, Target: "node-3"}},
			},
			"G1", "G2", "G6", "G7", "G8"),

		Entry("an instance that is stopped hands over at once what it held, and only that moves",
			Label("US1-3"),
			sim.Scenario{
				Name: "stopped-instance", Nodes: 3, Sessions: 9, Duration: short,
				Plan: []fault.Fault{{At: settled, Kind: fault.Leave, Target: "node-2"}},
			},
			"G1", "G2", "G6", "G7", "G8", "G13"),

		Entry("3 instances and 9 sessions settle at 3 each, and nothing moves any more",
			Label("US4-1"),
			sim.Scenario{Name: "steady", Nodes: 3, Sessions: 9, Duration: 2 * time.Minute, Plan: []fault.Fault{}},
			"G6", "G10", "G12"),

		Entry("10 instances on one host, none told of the others, each under a name of its own",
			Label("SC-003", "EC-3"),
			sim.Scenario{
				Name: "ten-instances", Nodes: 10, Sessions: 100, Duration: 4 * time.Minute,
				Plan: []fault.Fault{
					{At: settled, Kind: fault.Join, Target: "node-11"},
					{At: settled + 40*time.Second, Kind: fault.Leave, Target: "node-4"},
				},
			},
			"G1", "G2", "G6", "G11"),

		Entry("whoever comes or goes, however, every instance is within one of its ideal share soon after",
			Label("SC-004"),
			sim.Scenario{
				Name: "balance", Nodes: 5, Sessions: 52, Duration: 6 * time.Minute,
				Plan: []fault.Fault{
					{At: settled, Kind: fault.Join, Target: "node-6"},
					{At: settled + 35*time.Second, Kind: fault.Leave, Target: "node-2"},
					{At: settled + 70*time.Second, Kind: fault.SessionAdd, Ms: 11},
					{At: settled + 105*time.Second, Kind: fault.SessionRemove, Target: "session-7"},
					{At: settled + 140*time.Second, Kind: fault.SessionPause, Target: "session-9", For: 30 * time.Second},
					{At: settled + 205*time.Second, Kind: fault.Crash, Target: "node-3"},
				},
			},
			"G1", "G2", "G6", "G7"),
	)
})
