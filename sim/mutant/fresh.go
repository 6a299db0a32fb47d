package mutant

import (
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// emptied is a storm in which new processes are the first to find Redis empty or replaced.
func emptied(local bool, left redis.Emptied) sim.Scenario {
	return judgedBy(sim.Scenario{
		Nodes: 4, Sessions: 12, Faults: []fault.Kind{fault.Latency}, Virtual: sim.Virtual{Local: local, Emptied: left},
	}, "G1")
}

// moved is a storm in which the address leads to an apparently unused server, while one owner is cut off. All instances know an epoch.
func moved() sim.Scenario {
	s := emptied(true, redis.EmptiedMoved)
	s.Timings = sim.Timings{TTL: 10 * time.Second, Discovery: 3 * time.Second, Poll: 2 * time.Second}
	s.Faults, s.Plan = nil, []fault.Fault{
		{Kind: fault.BlackHole, At: 10 * time.Second, Target: fault.NodeTarget(1), For: 4 * time.Second},
		{Kind: fault.RedisWipe, At: 10500 * time.Millisecond, Target: fault.Redis, For: 500 * time.Millisecond},
	}
	return s
}

// fresh are mutants that each skip a condition under which a new Redis needs no quarantine.
var fresh = []Mutant{
	{
		Name: "new-despite-an-epoch", Breaks: "G1", Seeds: 20, Scenario: emptied(true, redis.EmptiedForeign),
		Story: "A Redis with an epoch of another run counts as new.",
		Lua:   []Edit{{"epoch", "if not epoch and ARGV[1] == '' and", "if ARGV[1] == '' and"}},
	},
	{
		Name: "new-to-who-knows-an-epoch", Breaks: "G1", Seeds: 20, Scenario: moved(),
		Story: "An instance that has known an epoch takes another server for new, although it may hold leases of the one before.",
		Lua:   []Edit{{"epoch", "if not epoch and ARGV[1] == '' and", "if not epoch and"}},
	},
	{
		Name: "new-on-another-machine", Breaks: "G1", Seeds: 20, Scenario: emptied(false, redis.EmptiedMoved),
		Story: "A Redis at an address that may lead to another machine counts as new.",
		Run:   func(v *virtual.Config) { v.Local = true },
	},
	{
		Name: "new-after-a-promotion", Breaks: "G1", Seeds: 20, Scenario: emptied(true, redis.EmptiedPromoted),
		Story: "A Redis that was a replica counts as new.",
		Lua:   []Edit{{"doubt", "if value ~= field[2] then", "if false then"}},
	},
	{
		Name: "new-after-scripts", Breaks: "G1", Seeds: 20, Scenario: emptied(true, redis.EmptiedByKeys),
		Story: "A Redis that has executed scripts counts as new once its keys are gone.",
		Lua:   []Edit{{"doubt", "if why then return length, why end", ""}},
	},
	{
		Name: "new-just-started", Breaks: "G1", Seeds: 20, Scenario: emptied(true, redis.EmptiedStarted),
		Story: "A Redis that was started a moment ago counts as new, although its last process may have granted leases.",
		Lua:   []Edit{{"doubt", "if left > 0 then", "if false then"}},
	},
}
