package archtest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rule forbids packages under From to reach packages under Never, over any number of imports. A path through a package of Except is
// allowed.
type rule struct {
	From, Never, Except []string
	Why                 string
}

// coreParts are the core and the packages that it consists of.
var coreParts = []string{"internal/core", "internal/place", "internal/member", "internal/pause", "internal/term"}

var rules = []rule{
	{
		From: []string{"internal/term"}, Never: []string{"lease", "internal", "sim", "cmd"},
		Why: "safety is argued from the kernel alone",
	},
	{
		From:  []string{"lease", "internal/node", "cmd/node", "cmd/leasectl"},
		Never: []string{"sim", "scenarios", "cmd/simulate"},
		Why:   "who imports the library compiles nothing of the storm",
	},
	{
		From:  []string{"sim/history", "sim/fault", "sim/nodelogs", "sim/measure", "sim/check", "sim/audit", "sim/criteria", "sim/report", "sim/page"},
		Never: append([]string{"lease"}, coreParts...),
		Why:   "the judge shares nothing with the accused",
	},
	{
		From: []string{"sim/history", "sim/fault"}, Never: []string{"sim"}, Except: []string{"sim/history", "sim/fault", "sim/timing"},
		Why: "records and plans know no engine",
	},
	{
		From: []string{"sim/check", "sim/audit", "sim/criteria", "sim/report", "sim/page"}, Never: []string{"sim/real", "sim/virtual", "sim/mutant"},
		Why: "the judge reads saved files and runs nothing",
	},
	{
		From: []string{"sim/real"}, Never: append([]string{"lease"}, coreParts...),
		Why: "the real engine knows a node only by its protocol",
	},
	{
		From:   []string{"sim/real/host", "sim/real/process", "sim/real/proxy", "sim/real/stream", "sim/real/target"},
		Never:  []string{"sim/real"},
		Except: []string{"sim/real/host", "sim/real/process", "sim/real/proxy", "sim/real/stream", "sim/real/target"},
		Why:    "the parts of the real engine know no run",
	},
	{
		From: []string{"lease", "internal/core", "cmd/node", "internal/node", "cmd/leasectl"}, Never: []string{"sim/mutant"},
		Why: "a lease that is broken on purpose is never reachable from production code",
	},
	{
		From: []string{"internal/node", "cmd/node"}, Never: []string{"internal/redisstore", "internal/core"},
		Except: []string{
			"lease", "lease/admin", "lease/poll", "lease/election", "lease/intent", "lease/intent/api", "lease/intent/store",
			"lease/intent/worker",
		},
		Why: "the reference node is a normal user of the public API",
	},
	{
		From:   []string{"lease", "internal/node", "internal/core", "cmd/node", "cmd/leasectl", "cmd/simulate", "sim/check", "sim/real"},
		Never:  []string{"github.com/moby", "github.com/docker", "github.com/testcontainers"},
		Except: []string{"sim/container"},
		Why:    "container engines are the simulator's affair, in one package",
	},
	{
		From: []string{"lease/poll", "lease/election", "lease/intent", "lease/metrics", "lease/slogcore", "lease/traces",
			"internal/node", "cmd", "examples", "sim"},
		Never: []string{"lease/leasetest"},
		Why:   "what is for tests, with a Redis in memory, is in no program that uses leases",
	},
	{
		From: []string{"lease/leasetest"}, Never: []string{"sim", "internal"}, Except: []string{"internal/inner"},
		Why: "tests of users reach instances by one package only",
	},
	{
		From: []string{"lease/poll", "lease/election", "lease/intent", "lease/metrics", "lease/slogcore", "lease/leasetest",
			"internal/node", "internal/core", "internal/redisstore", "cmd", "sim"},
		Never: []string{"lease/traces"},
		Why:   "tracing is compiled by who traces",
	},
	{
		From: []string{"internal/redisstore"}, Never: []string{"lease"}, Except: []string{"internal/redisstore"},
		Why: "the store is below the library",
	},
}

// broken returns one sentence for each package that breaks the rule.
func (r rule) broken(g graph) []string {
	var out []string
	for from := range g {
		if !under(from, r.From...) {
			continue
		}
		sub := make(graph, len(g))
		for path, imports := range g {
			if path == from || !slices.Contains(r.Except, path) {
				sub[path] = imports
			}
		}
		chain := sub.reach(from, func(path string) bool {
			return under(path, r.Never...) && !under(path, r.From...) && !slices.Contains(r.Except, path)
		})
		if chain != nil {
			out = append(out, fmt.Sprintf("%s: %s", strings.Join(chain, " → "), r.Why))
		}
	}
	slices.Sort(out)
	return out
}

func TestImports(t *testing.T) {
	g := graphOf(loaded(t))
	for _, r := range rules {
		for _, s := range r.broken(g) {
			t.Error(s)
		}
	}
}

// A program that imports leases compiles no metrics and no traces.
func TestLeasesCompileNoTelemetry(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./lease", "./lease/poll", "./lease/election", "./lease/intent/worker")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/internal/core") {
		t.Fatalf("found are only %v", deps)
	}
	for _, path := range deps {
		if under(path, "go.opentelemetry.io", "github.com/prometheus", module+"/lease/metrics", module+"/lease/traces") {
			t.Errorf("%s comes along with leases", path)
		}
	}
}
