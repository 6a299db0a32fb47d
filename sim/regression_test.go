package sim

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// TestRegressionSeeds runs the drawn storms that once broke a guarantee (docs/found.md). What each of them is about stands
// in a story too; the seed shows that the whole keeps it. After the guarantee a line may name the system, if it is not polling,
// and the only faults that are drawn.
func TestRegressionSeeds(t *testing.T) {
	f, err := os.Open("testdata/regression.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		seed, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || len(words) < 2 || len(words) > 4 {
			t.Fatalf("testdata/regression.txt: %q: %v", lines.Text(), err)
		}
		var s Scenario
		if len(words) > 2 {
			s.System = words[2]
		}
		if len(words) > 3 {
			for _, name := range strings.Split(words[3], ",") {
				s.Faults = append(s.Faults, fault.Kind(name))
			}
		}
		got, err := Explore(t.Context(), Exploration{
			Scenario: s, Seeds: SeedRange{seed, seed}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(),
		})
		if err != nil || got.Done != 1 || len(got.Failed) != 0 || got.Verdict == check.Fail {
			t.Errorf("seed %d: %+v, %v", seed, got, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
