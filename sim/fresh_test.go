package sim

import (
	"flag"
	"maps"
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
	left := redis.Detected[r.IntN(len(redis.Detected))]
	if r.IntN(3) > 0 {
		return
	}
	if c.Virtual.Emptied = left; !c.Virtual.Local && r.IntN(2) == 0 {
		c.Virtual.Emptied = redis.EmptiedMoved
	}
	plan.Faults = newcomersFirst(c, c.Seed, plan.Faults)
}

// If a new Redis grants leases at once, each lease still has one owner, also in the target's view, and fences grow. The seeds meet each
// condition after a loss of data, and a Redis that fulfils all.
func TestNewRedis(t *testing.T) {
	inSeeds, all := map[string]int{}, 0
	for seed := uint64(1); seed <= *freshSeeds; seed++ {
		begun, lostBefore := map[string]bool{}, false
		c, plan, err := Scenario{}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		empty(&c, &plan)
		verdicts, out, _, err := JudgeVirtual(t.Context(), c, plan, func(v *virtual.Config) {
			v.Unannounced = v.Local && seed%4 == 0 // G10 would miss a quarantine
			v.Seams.Begun = func(condition string, lost bool) {
				begun[condition] = true
				lostBefore = lostBefore || lost
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Verdict == check.Fail && slices.Contains([]string{"G1", "G2", "G3"}, v.ID) || out.Fell != "" {
				t.Errorf("seed %d: %s %s %s", seed, v.ID, v.Detail, out.Fell)
			}
		}
		for condition := range begun {
			inSeeds[condition]++
		}
		if lostBefore {
			all++
		}
	}
	t.Logf("an epoch began after a loss of data in %d of %d seeds; by condition: %v", all, *freshSeeds, inSeeds)
	for _, condition := range []string{"", "a", "b", "c", "d", "e", "f"} {
		if inSeeds[condition] == 0 {
			t.Errorf("condition %q: in no seed of %v", condition, slices.Sorted(maps.Keys(inSeeds)))
		}
	}
}

// Scripts and their twins decide alike about a Redis without an epoch.
func TestNewRedisByItsScripts(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		c, plan, err := Scenario{Nodes: 3, Sessions: 4}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		empty(&c, &plan)
		if !c.Virtual.Local || c.Virtual.Emptied == "" {
			continue
		}
		_, twins, _, err := JudgeVirtual(t.Context(), c, plan, nil)
		_, scripts, _, err2 := JudgeVirtual(t.Context(), c, plan, Interpreted(nil))
		if err != nil || err2 != nil || twins.SHA256 != scripts.SHA256 {
			t.Errorf("seed %d, %s: twins %s, scripts %s, %v, %v", seed, c.Virtual.Emptied, twins.SHA256, scripts.SHA256, err, err2)
		}
	}
}
