package sim

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
)

// TestRegressionSeeds runs the drawn storms that once broke a guarantee (docs/found.md). What each of them is about stands
// in a story too; the seed shows that the whole keeps it.
func TestRegressionSeeds(t *testing.T) {
	f, err := os.Open("testdata/regression.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		word, _, _ := strings.Cut(lines.Text(), " ")
		if word == "" || word == "#" {
			continue
		}
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			t.Fatalf("testdata/regression.txt: %v", err)
		}
		got, err := Explore(t.Context(), Exploration{Seeds: SeedRange{seed, seed}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir()})
		if err != nil || got.Done != 1 || len(got.Failed) != 0 || got.Verdict == check.Fail {
			t.Errorf("seed %d: %+v, %v", seed, got, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
