package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// intents is a storm of two APIs, two workers and two nodes that are both. It has enough sessions that a killed worker leaves leases
// behind with any seed.
func intents(name string, apiLeases string, plan ...fault.Fault) sim.Scenario {
	return sim.Scenario{
		Name: name, System: sim.SystemIntents, Nodes: 6, Sessions: 48, Duration: short, APILeases: apiLeases, Plan: plan,
	}
}

var _ = Describe("Intents: APIs accept, workers alone own leases", func() {
	DescribeTable("whatever becomes of them", holds,

		Entry("a start sent many times, and starts that conflict: one session and one pipeline each, the others end as busy",
			Label("ADR-003-5.1", "ADR-003-5.2", "ADR-003-6", "smoke-intents"),
			intents("intents-calm", sim.APILeasesOff, fault.Fault{At: settled, Kind: fault.ScriptFlush}),
			"I1", "I2", "I3", "I4", "I5"),

		Entry("in phase 1 the API takes the lease of the service, and the worker takes it over",
			Label("ADR-003-4", "ADR-003-5.1"),
			intents("intents-phase-1", sim.APILeasesOn, fault.Fault{At: settled, Kind: fault.Terminate, Target: "node-2", For: 5 * time.Second}),
			"I1", "I2", "I3", "I4", "I5"),

		Entry("while both phases run side by side nothing is started twice",
			Label("ADR-003-4"),
			intents("intents-migrating", sim.APILeasesMixed, fault.Fault{At: settled, Kind: fault.Crash, Target: "node-1", For: 5 * time.Second}),
			"I1", "I2", "I3", "I4", "I5"),

		Entry("a worker that is killed and not restarted: busy until its leases expire, then free",
			Label("ADR-003-5.3-A"),
			intents("intents-killed", sim.APILeasesOff, fault.Fault{At: settled, Kind: fault.Crash, Target: "node-2"}),
			"I1", "I2", "I3", "I6"),

		Entry("a worker that is killed and restarted at once: what it left is free at once",
			Label("ADR-003-5.3-B"),
			intents("intents-restarted", sim.APILeasesOff, fault.Fault{At: settled, Kind: fault.Crash, Target: "node-2", For: time.Second}),
			"I1", "I2", "I3", "I6"),

		Entry("a worker stopped between its check and its send is refused by its fence",
			intents("intents-frozen", sim.APILeasesOff,
				fault.Fault{At: settled, Kind: fault.CheckSend, Target: "node-2"},
				fault.Fault{At: settled + 70*time.Second, Kind: fault.Freeze, Target: "node-5", For: 2 * ttl}),
			"I1", "I2", "I3"),
	)
})
