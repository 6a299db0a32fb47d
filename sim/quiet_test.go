package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

var quietSeeds = flag.Int("quiet", 1000, "seeds of which TestBudgetsAreTight makes its table; of intents, which take longer, a tenth of them")

// tightSeeds are enough seeds to meet, in each state, nearly the largest number of commands.
const tightSeeds = 1000

// Instances never send more commands than their budget, and in each state their most is at least a quarter of it (G14, E7, I7). Few of the
// changes with a time limit are not judged. With -v, the test prints them.
func TestBudgetsAreTight(t *testing.T) {
	for _, system := range check.Systems() {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			loads, shares, seeds := map[string]check.Load{}, map[string]share{}, *quietSeeds
			if system == check.SystemIntents {
				seeds = max(1, seeds/10)
			}
			for seed := range seeds {
				verdicts := drawn(t, system, uint64(seed+1))
				for _, v := range verdicts {
					shares[v.ID] = share{shares[v.ID].judged + v.Exercised, shares[v.ID].excused + v.Excused}
				}
				for _, l := range budgets(t, verdicts, seed+1) {
					sum := loads[l.State]
					sum.Windows += l.Windows
					sum.Most = max(sum.Most, l.Most)
					if sum.Limit == 0 || l.Sent*sum.Limit > sum.Sent*l.Limit {
						sum.Sent, sum.Limit = l.Sent, l.Limit
					}
					loads[l.State] = sum
				}
			}
			var table strings.Builder
			for _, state := range slices.Sorted(maps.Keys(loads)) {
				l := loads[state]
				fmt.Fprintf(&table, "| %s | %d | %d | %d of %d |\n", state, l.Windows, l.Most, l.Sent, l.Limit)
				if l.Limit > 4*l.Sent && seeds >= tightSeeds {
					t.Errorf("%s: at most %d of %d commands were ever sent: the limit is loose", state, l.Sent, l.Limit)
				}
			}
			t.Logf("%d seeds\n%s", seeds, table.String())
			if len(loads) < 12 {
				t.Errorf("%d states were met, want a dozen: %s", len(loads), table.String())
			}
			littleIsExcused(t, shares)
		})
	}
}

// share counts the changes that a guarantee judged, and those that it excused because no useful limit can be computed.
type share struct{ judged, excused int }

// mostExcused is the share of changes, in percent, that a guarantee may excuse: about twice the share in many more seeds. Others excuse
// nothing.
var mostExcused = map[string]int{"G5": 5, "G8": 6, "G9": 16, "G11": 3, "G13": 20, "E4": 4, "I3": 12, "I5": 2, "I6": 1}

// littleIsExcused compares a guarantee's excused changes with its share.
func littleIsExcused(t *testing.T, shares map[string]share) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(shares)) {
		s := shares[id]
		t.Logf("%s: %d judged, %d excused", id, s.judged, s.excused)
		if s.excused*100 > mostExcused[id]*(s.judged+s.excused) {
			t.Errorf("%s excused %d changes and judged %d: more than %d %%", id, s.excused, s.judged, mostExcused[id])
		}
	}
}

// drawn plays a seed as an exploration does.
func drawn(t *testing.T, system string, seed uint64) []check.Verdict {
	t.Helper()
	c, plan, err := Scenario{System: system}.Swarm(seed)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, _, _, err := JudgeVirtual(t.Context(), c, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

// budgets returns the commands of instances in each state.
func budgets(t *testing.T, verdicts []check.Verdict, seed int) []check.Load {
	t.Helper()
	for _, v := range verdicts {
		if len(v.Loads) > 0 {
			if v.Verdict != check.Pass {
				t.Errorf("seed %d: %s is %s: %s", seed, v.ID, v.Verdict, v.Detail)
			}
			return v.Loads
		}
	}
	t.Fatalf("seed %d: nobody's commands were counted", seed)
	return nil
}

// Sound instances keep their budgets (G14, E7, I7) with any relation of their intervals: discoveries as rare as renewals or much more
// frequent, clients that send two or twenty requests per renewal interval, and start delays much shorter than all of these.
func TestLongTTLs(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Scenario
	}{
		{"G14", Scenario{Timings: Timings{Discovery: time.Second}}},
		{"G14, a hundred looks", Scenario{Timings: Timings{TTL: 5 * time.Minute, Discovery: time.Second}, Duration: 30 * time.Minute}},
		{"G14, of an hour", Scenario{Timings: Timings{TTL: time.Hour}, Duration: 6 * time.Hour}},
		{"G6 and G14, five hundred looks in a TTL", Scenario{Timings: Timings{TTL: 10 * time.Second, Discovery: 20 * time.Millisecond}}},
		{"E7", Scenario{System: SystemElection, Timings: Timings{TTL: time.Hour}, Duration: 6 * time.Hour}},
		{"I7, clients ask often", Scenario{System: SystemIntents, Timings: Timings{Poll: 500 * time.Millisecond}}},
		{"I7, waits are short", Scenario{System: SystemIntents, Sessions: 1, Timings: Timings{TTL: 5 * time.Minute}, Duration: 20 * time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.s.Engine, c.s.Nodes = EngineVirtual, 4
			if c.s.Sessions == 0 && c.s.System != SystemElection {
				c.s.Sessions = 20
			}
			for c.s.Seed = 1; c.s.Seed <= 2; c.s.Seed++ {
				cfg := resolved(t, c.s)
				plan, err := cfg.Draw(NewVirtual(nil).Supports)
				if err != nil {
					t.Fatal(err)
				}
				verdicts, _, _, err := JudgeVirtual(t.Context(), cfg, plan, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range verdicts {
					if v.Verdict == check.Fail {
						t.Errorf("seed %d: %s: %s", c.s.Seed, v.ID, v.Detail)
					}
				}
			}
		})
	}
}
