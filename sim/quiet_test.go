package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
)

var quietSeeds = flag.Int("quiet", 600, "seeds of which TestBudgetsAreTight makes its table; of intents, which take longer, a tenth of them")

// tightSeeds are enough to meet, in each state, something near the most that instances send in it.
const tightSeeds = 600

// What instances send is never more than four times below what they may, whatever they go through, and never above it (G14, E7,
// I7). With -v it prints the table of docs/guarantees.md.
func TestBudgetsAreTight(t *testing.T) {
	for _, system := range check.Systems() {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			loads, seeds := map[string]check.Load{}, *quietSeeds
			if system == check.SystemIntents {
				seeds = max(1, seeds/10)
			}
			for seed := range seeds {
				for _, l := range budgets(t, system, uint64(seed+1)) {
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
		})
	}
}

func budgets(t *testing.T, system string, seed uint64) []check.Load {
	t.Helper()
	c, plan, err := Scenario{System: system}.Swarm(seed)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, _, _, err := judgeVirtual(t.Context(), c, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if len(v.Loads) > 0 {
			if v.Verdict != check.Pass {
				t.Errorf("seed %d: %s is %s: %s", seed, v.ID, v.Verdict, v.Detail)
			}
			return v.Loads
		}
	}
	t.Fatalf("seed %d of %s: nobody's commands were counted", seed, system)
	return nil
}
