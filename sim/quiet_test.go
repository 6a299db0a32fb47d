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

var quietSeeds = flag.Int("quiet", 150, "seeds of each system of which TestBudgetsAreTight makes its table")

// What instances send is never more than four times below what they may, whatever they go through (G14, E7, I7). With -v it
// prints the table of docs/guarantees.md.
func TestBudgetsAreTight(t *testing.T) {
	for _, system := range check.Systems() {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			loads := map[string]check.Load{}
			for seed := range *quietSeeds {
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
				if l.Limit > 4*l.Sent {
					t.Errorf("%s: at most %d of %d commands were ever sent: the limit is loose", state, l.Sent, l.Limit)
				}
			}
			t.Logf("%d seeds\n%s", *quietSeeds, table.String())
			if len(loads) < 12 {
				t.Errorf("%d states were met, want a dozen", len(loads))
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
			return v.Loads
		}
	}
	t.Fatalf("seed %d of %s: nobody's commands were counted", seed, system)
	return nil
}
