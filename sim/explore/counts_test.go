package explore

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// Counts by kind of fault add up to those of all changes, measured times to what their buckets hold, breaks begin before they end, and
// one of those that are told began first: in every system, whether something breaks or not.
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
				if g.count(&v); !g.sums() {
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

// A shard whose counts by kind are not those of all changes, or whose measured times are not what their buckets hold, is refused.
func TestMergeRefusesCountsThatDoNotAddUp(t *testing.T) {
	type k = check.KindCount
	kinds := func(all ...k) func(*GuaranteeCount) {
		return func(g *GuaranteeCount) { g.Judged, g.Excused, g.Prolonged, g.Kinds = 7, 2, []uint64{1, 2}, all }
	}
	measured := func(n int, p50 float64, often int) func(*GuaranteeCount) {
		return func(g *GuaranteeCount) {
			text := fmt.Sprintf(`{"of":"failover","n":%d,"p50Ms":%g,"p99Ms":5,"maxMs":5,"buckets":"505:1"}`, n, p50)
			if err := json.Unmarshal([]byte("["+strings.Repeat(text+",", often-1)+text+"]"), &g.Times); err != nil {
				t.Fatal(err)
			}
		}
	}
	many := make([]k, kindsMax+1)
	for i := range many {
		many[i].Kind = fmt.Sprintf("%03d", i)
	}
	many[0].Exercised, many[0].Prolonged, many[0].Excused = 7, 3, 2
	for name, c := range map[string]struct {
		bend  func(*GuaranteeCount)
		sound bool
	}{
		"by kind":          {kinds(k{Kind: "crash", Exercised: 7}, k{Kind: "none", Prolonged: 3, Excused: 2}), true},
		"fewer judged":     {kinds(k{Kind: "crash", Exercised: 6, Prolonged: 3, Excused: 2}), false},
		"more excused":     {kinds(k{Kind: "crash", Exercised: 7, Prolonged: 3, Excused: 3}), false},
		"more moved":       {kinds(k{Kind: "crash", Exercised: 7, Prolonged: 4, Excused: 2}), false},
		"a kind twice":     {kinds(k{Kind: "a", Exercised: 7, Prolonged: 3}, k{Kind: "a", Excused: 2}), false},
		"a long name":      {kinds(k{Kind: strings.Repeat("x", nameMax+1), Exercised: 7, Prolonged: 3, Excused: 2}), false},
		"more than exist":  {kinds(many...), false},
		"measured":         {measured(1, 5, 1), true},
		"measured less":    {measured(2, 5, 1), false},
		"measured others":  {measured(1, 4.9, 1), false},
		"measured twice":   {measured(1, 5, 2), false},
		"measured for all": {measured(1, 5, kindsMax+1), false},
	} {
		s := shardOf(SeedRange{21, 40}, Shard{2, 2}, 10)
		g := &s.Guarantees[4]
		c.bend(g)
		g.Exercised = min(g.Exercised, s.Done)
		file := filepath.Join(t.TempDir(), "shard")
		if err := writeCoverage(file, &s); err != nil {
			t.Fatal(err)
		}
		if _, err := Merge([]string{file}); (err == nil) != c.sound || err != nil && !strings.Contains(err.Error(), "contradicts itself") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
