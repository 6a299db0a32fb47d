package sim

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

var freshSeeds = flag.Uint64("fresh", 120, "how many seeds TestNewRedis plays")

// empty draws whether instances reach Redis at a loopback address and, in every third run, which server replaces a Redis that loses its
// data. On another machine that can be any server; at a loopback address, it shows its state. Seeds draw nothing else here, because G10
// takes a partly expired quarantine for one that is too short.
func empty(c *Config, plan *fault.Plan) {
	r := rand.New(rand.NewPCG(c.Seed, streamEmpty))
	c.Virtual.Local = r.IntN(2) == 0
	left := detected[r.IntN(len(detected))]
	if r.IntN(3) > 0 {
		return
	}
	if c.Virtual.Emptied = left; !c.Virtual.Local && r.IntN(2) == 0 {
		c.Virtual.Emptied = redis.EmptiedMoved
	}
	plan.Faults = newcomersFirst(c, c.Seed, plan.Faults)
}

// detected are the states of an emptied Redis that an instance at a loopback address notices.
var detected = []redis.Emptied{
	redis.EmptiedStarted, redis.EmptiedByKeys, redis.EmptiedPromoted, redis.EmptiedEvicted, redis.EmptiedReset, redis.EmptiedModule,
	redis.EmptiedForeign,
}

// If a new Redis grants leases at once, each lease still has one owner, also in the target's view, and fences grow. For each condition of
// that, a mutant skips it.
func TestNewRedis(t *testing.T) {
	for seed := uint64(1); seed <= *freshSeeds; seed++ {
		c, plan, err := Scenario{}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		empty(&c, &plan)
		verdicts, out, _, err := JudgeVirtual(t.Context(), c, plan, func(v *virtual.Config) {
			v.Unannounced = v.Local && seed%4 == 0 // G10 would miss a quarantine
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Verdict == check.Fail && slices.Contains([]string{"G1", "G2", "G3"}, v.ID) || out.Fell != "" {
				t.Errorf("seed %d: %s %s %s", seed, v.ID, v.Detail, out.Fell)
			}
		}
	}
}
