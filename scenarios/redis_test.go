package scenarios

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

var _ = Describe("Redis fails, and nothing is polled twice", func() {
	DescribeTable("whether it remembers or not", holds,

		Entry("while Redis is away for longer than a lease lives, nobody polls; when it is back, everybody does",
			Label("EC-1"),
			sim.Scenario{
				Name: "outage", Nodes: 3, Sessions: 9, Duration: 4 * time.Minute,
				Plan: []fault.Fault{
					{At: time.Second, Kind: fault.Join, Target: "node-4"}, // ensures that leases change hands, as below
					{At: settled, Kind: fault.RedisOutage, For: 45 * time.Second},
				},
			},
			"G1", "G2", "G3", "G4", "G9"),

		Entry("a Redis that hangs, restarts, is emptied, forgets its scripts or drops its clients costs no duplicate",
			Label("SC-005"),
			sim.Scenario{
				Name: "redis-fails", Nodes: 4, Sessions: 20, Duration: 9 * time.Minute,
				Plan: []fault.Fault{
					{At: time.Second, Kind: fault.Join, Target: "node-5"},
					{At: settled, Kind: fault.RedisFreeze, For: 15 * time.Second},
					{At: settled + 45*time.Second, Kind: fault.RedisRestart},
					{At: settled + 100*time.Second, Kind: fault.RedisWipe, For: 40 * time.Second}, // longer than any owner's trust in its lease
					{At: settled + 220*time.Second, Kind: fault.RedisFlush},
					{At: settled + 290*time.Second, Kind: fault.ScriptFlush},
					{At: settled + 310*time.Second, Kind: fault.ClientKill},
					{At: settled + 330*time.Second, Kind: fault.RedisReadOnly, For: 15 * time.Second},
				},
			},
			"G1", "G2", "G3", "G4", "G9"),

		Entry("a Redis that answers reads and refuses writes, whatever its reason, is served again within a renewal interval",
			Label("SC-005", "refused"), builtin("refused"),
			"G1", "G2", "G3", "G4", "G9"),
	)

	DescribeTable("in the specification's own 30 seconds", holds,

		Entry("after an outage, an empty restart and a flush every session is polled again within a renewal interval",
			Label("SC-005", "speed-1"),
			sim.Scenario{
				Name: "seed-timings-redis", Nodes: 3, Sessions: 24, Speed: 1, Duration: 230 * time.Second,
				Plan: []fault.Fault{
					{At: time.Second, Kind: fault.Join, Target: "node-4"},
					{At: 15 * time.Second, Kind: fault.RedisOutage, For: 35 * time.Second}, // a quarantine follows each of these faults
					{At: 97 * time.Second, Kind: fault.RedisWipe, For: time.Second},
					{At: 147 * time.Second, Kind: fault.RedisFlush},
				},
			},
			"G1", "G2", "G3", "G4", "G9"),
	)
})

func builtin(name string) sim.Scenario {
	s, err := sim.Load(name)
	if err != nil {
		panic(err) // fails before any spec runs
	}
	return s
}
