package sim

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// regressions are the drawn storms that once broke a guarantee, each with all that its seed gave. Seeds may later draw other plans
// (DrawVersion).
const regressions = "testdata/regression/*.yaml"

var freeze = flag.String("freeze", "", "write down the run that a seed gives now: \"6053 G9\", \"7 I3 intents crash-all,redis-wipe\" "+
	"for another system and named faults, or \"1579 E4 sentinel=2 election\" with so many replicas (cluster=2)")

// TestRegressionSeeds runs these storms. Each has a story too; the seed shows that the whole system keeps its promise.
func TestRegressionSeeds(t *testing.T) {
	if *freeze != "" {
		frozen(t, strings.Fields(*freeze))
		return
	}
	files, err := filepath.Glob(regressions)
	if err != nil || len(files) == 0 {
		t.Fatal("no storms in "+regressions, err)
	}
	for _, file := range files {
		s, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		c := resolved(t, s)
		if c.Plan == nil {
			t.Fatalf("%s has no plan: its seed would draw one, which may change", file)
		}
		verdicts, _, _, err := JudgeVirtual(t.Context(), c, *c.Plan, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, v := range verdicts {
			if v.Verdict == check.Fail {
				t.Errorf("%s: %s: %s", file, v.ID, v.Detail)
			}
		}
	}
}

// frozen writes the file of a seed's run. words are the seed, the guarantee that it broke and, optionally, the replicas, the system and the
// only drawn faults. The saved run must have the same history.
func frozen(t *testing.T, words []string) {
	t.Helper()
	seed, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil || len(words) < 2 || len(words) > 5 {
		t.Fatalf("-freeze %q: %v", words, err)
	}
	file, s := words[0], Scenario{}
	if len(words) > 2 {
		if topology, n, ok := strings.Cut(words[2], "="); ok {
			replicas, err := strconv.Atoi(n)
			if err != nil {
				t.Fatalf("-freeze %q: %v", words, err)
			}
			s.Topology, s.Replicas = topology, &replicas
			file += "-" + topology
			words = slices.Delete(words, 2, 3)
		}
	}
	if len(words) > 2 {
		s.System = words[2]
		file += "-" + s.System
	}
	if len(words) > 3 {
		for _, name := range strings.Split(words[3], ",") {
			s.Faults = append(s.Faults, fault.Kind(name))
		}
	}
	c, plan, err := s.Swarm(seed)
	if err != nil {
		t.Fatal(err)
	}
	y := c.yaml()
	y.Faults = nil // the plan has them
	head := fmt.Sprintf("# Seed %d of %s as version %d of what seeds draw gave it. It broke %s.\nplan:\n", seed, c.System, DrawVersion,
		words[1])
	for _, f := range plan.Faults { // one on a line
		line, err := yaml.MarshalWithOptions(f, yaml.Flow(true))
		if err != nil {
			t.Fatal(err)
		}
		head += "  - " + string(line)
	}
	file = filepath.Join(filepath.Dir(regressions), file+".yaml")
	if err := y.save(file, head); err != nil {
		t.Fatal(err)
	}
	read, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	again := resolved(t, read)
	if want, got := sumOf(t, c, plan), sumOf(t, again, *again.Plan); want != got {
		t.Fatalf("%s has the history %s, its seed %s", file, got, want)
	}
}

func sumOf(t *testing.T, c Config, plan fault.Plan) string {
	t.Helper()
	sum := history.NewSum()
	if _, err := runVirtual(t.Context(), c, plan, nil, func(e history.Event) { sum.Add(&e) }, nil); err != nil {
		t.Fatal(err)
	}
	return sum.String()
}
