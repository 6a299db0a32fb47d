package explore

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// Counts by kind of fault add up to those of all changes, and measured times to those in the buckets. Breaks begin before they end, and one
// of the listed breaks began first. This holds in every system, with and without breaks.
func TestCountsAddUp(t *testing.T) {
	kinds, timed, told := map[string]bool{}, map[string]bool{}, 0
	for name, c := range map[string]struct {
		scenario sim.Scenario
		bend     sim.Breaker
		seeds    uint64
	}{
		"polling":  {sim.Scenario{}, nil, 12},
		"broken":   {sim.Scenario{Nodes: 4, Sessions: 12, Fixed: sim.Fixed{Duration: 2 * time.Minute}}, virtualtest.ConstantFence, 4},
		"election": {sim.Scenario{System: sim.SystemElection}, nil, 12},
		"intents":  {sim.Scenario{System: sim.SystemIntents}, nil, 3},
	} {
		for seed := uint64(1); seed <= c.seeds; seed++ {
			cfg, plan, err := c.scenario.Swarm(seed)
			if err != nil {
				t.Fatal(err)
			}
			verdicts, _, _, err := sim.JudgeVirtual(t.Context(), cfg, plan, c.bend)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range verdicts {
				g := GuaranteeCount{ID: v.ID}
				g.count(&v)
				var all check.KindCount
				for _, k := range g.Kinds {
					all.Exercised += k.Exercised
					all.Excused += k.Excused
				}
				if all.Exercised != g.Judged || all.Excused != g.Excused {
					t.Errorf("%s, seed %d: %s exercised %d, prolonged %v, excused %d, and by kind %+v, %+v", name, seed, v.ID, v.Exercised,
						v.Prolonged, v.Excused, v.Kinds, v.Times)
				}
				for _, k := range v.Kinds {
					kinds[k.Kind] = true
				}
				for _, m := range v.Times {
					timed[m.Of] = true
				}
				told += len(v.Breaks)
				checkBreaks(t, &v)
			}
		}
	}
	for _, k := range []string{"none", "crash", "terminate", "handover", "redis-freeze"} {
		if !kinds[k] {
			t.Errorf("nothing was counted of %s: %v", k, kinds)
		}
	}
	for _, m := range []string{"failover", "handover", "gap", "appeared", "recovery", "settled"} {
		if !timed[m] {
			t.Errorf("nothing was measured of %s: %v", m, timed)
		}
	}
	if told == 0 {
		t.Error("no break was told")
	}
}

func checkBreaks(t *testing.T, v *check.Verdict) {
	t.Helper()
	broken, firsts := uint64(0), 0
	for _, k := range v.Kinds {
		broken += k.Broken
	}
	for _, b := range v.Breaks {
		if b.First {
			firsts++
			for _, o := range v.Breaks {
				if o.From < b.From {
					t.Errorf("%s: %+v began before %+v", v.ID, o, b)
				}
			}
		}
		if b.To < b.From {
			t.Errorf("%s: %+v ends before it begins", v.ID, b)
		}
	}
	if failed := v.Verdict == check.Fail; failed != (firsts == 1) || failed != (broken > 0) || broken < uint64(len(v.Breaks)) {
		t.Errorf("%s %s: %d breaks by kind, %d told, %d of them the first", v.ID, v.Verdict, broken, len(v.Breaks), firsts)
	}
}
