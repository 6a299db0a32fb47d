package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

var _ = Describe("What happens to a lease stands in the log that everybody has", func() {
	// Nodes of the simulator log at debug level (LEASESTORM_LOG=debug). The promises hold for the default level.
	It("acquired, renewed, released and lost, and what failed of it, at the level that is the default",
		Label("FR-019", "FR-020", "FR-021", "FR-022"), func(ctx SpecContext) {
			holds(ctx, sim.Scenario{
				Name: "told", Nodes: 3, Sessions: 9, Duration: 4 * time.Minute,
				NodeCmd: []string{"env", "-u", "LEASESTORM_LOG", referenceNode},
				Plan: []fault.Fault{
					{At: settled, Kind: fault.BlackHole, Target: "node-1", For: 2 * ttl},
					{At: settled + 100*time.Second, Kind: fault.Leave, Target: "node-2"},
				},
			}, "G1", "G2", "G3", "G12", "G13")
		})
})
