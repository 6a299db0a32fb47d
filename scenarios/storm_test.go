package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

var _ = Describe("Everything breaks at once", func() {
	DescribeTable("and each session is polled by exactly one instance at any time", holds,

		Entry("in a short storm",
			Label("smoke"),
			sim.Scenario{
				Name: "smoke", Nodes: 3, Sessions: 9, Duration: 4 * time.Minute,
				Plan: []fault.Fault{
					{At: 10 * time.Second, Kind: fault.Join, Target: "node-4"},
					{At: 30 * time.Second, Kind: fault.Crash, Target: "node-1"},
					{At: 70 * time.Second, Kind: fault.Leave, Target: "node-2"},
					{At: 85 * time.Second, Kind: fault.RedisWipe, For: 2 * time.Second},
				},
			},
			"G1", "G2", "G3", "G5", "G6", "G8", "G9", "G10", "G12", "G13"),

		Entry("in the default storm, drawn from a seed, with every guarantee put to the test",
			Label("SC-001"),
			sim.Scenario{Name: "default-storm"},
			"G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11", "G12", "G13"),
	)
})
