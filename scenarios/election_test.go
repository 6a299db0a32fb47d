package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// election is a storm with five candidates for one leader key.
func election(name string, plan ...fault.Fault) sim.Scenario {
	return sim.Scenario{Name: name, System: sim.SystemElection, Nodes: 5, Duration: 4 * time.Minute, Plan: plan}
}

var _ = Describe("Election: one leader at a time", func() {
	DescribeTable("whatever befalls it", holds,

		Entry("a leader that crashes is followed by another when its key expires",
			Label("SOVEREIGN-1"),
			election("election-crash", fault.Fault{At: settled, Kind: fault.Crash, Target: fault.Leader}),
			"E1", "E2", "E3", "E4", "E6"),

		Entry("a leader cut off from Redis is none before another is one",
			Label("SOVEREIGN-2"),
			election("election-partition", fault.Fault{At: settled, Kind: fault.BlackHole, Target: fault.Leader, For: 3 * ttl}),
			"E1", "E2", "E3", "E4", "E5", "E6"),

		Entry("a leader whose heartbeat stands still while its key lives goes on leading",
			Label("SOVEREIGN-3"),
			election("election-heartbeat-stale",
				fault.Fault{At: settled, Kind: fault.BeatStale, Target: fault.Leader, For: 4 * ttl},
				fault.Fault{At: settled + 130*time.Second, Kind: fault.Terminate, Target: fault.Leader}),
			"E1", "E2", "E3", "E4", "E6"),

		Entry("a leader whose replies are lost is none either, and its key is not kept alive unheard",
			Label("SOVEREIGN-2"),
			election("election-replies-lost", fault.Fault{At: settled, Kind: fault.RepliesLost, Target: fault.Leader, For: 3 * ttl}),
			"E1", "E2", "E3", "E5", "E6"),

		Entry("twenty candidates that start at once elect one",
			Label("SOVEREIGN-RACE"),
			sim.Scenario{
				Name: "election-twenty", System: sim.SystemElection, Nodes: 20, Duration: 4 * time.Minute,
				Plan: []fault.Fault{{At: settled, Kind: fault.Terminate, Target: fault.Leader}},
			},
			"E1", "E2", "E3", "E4", "E6"),

		Entry("a leader that is paused and resumed leads no more, and what it had begun to write is refused",
			Label("SOVEREIGN-RACE"),
			election("election-paused", fault.Fault{At: settled, Kind: fault.CheckSend, Target: fault.Leader}),
			"E1", "E2", "E3", "E6"),

		Entry("a leader key deleted by hand costs no write by two",
			Label("SOVEREIGN-RACE"),
			election("election-deleted",
				fault.Fault{At: settled, Kind: fault.KeyDelete, Target: fault.SessionTarget(1)},
				fault.Fault{At: settled + 90*time.Second, Kind: fault.Terminate, Target: fault.Leader}),
			"E2", "E3", "E6"),
	)
})
