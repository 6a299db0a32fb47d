package archtest

import (
	"fmt"
	"go/ast"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rule forbids packages under From to reach, over any number of imports, packages under Never (except Except, which also
// ends the search: what the exception imports is its own affair).
type rule struct {
	From, Never, Except []string
	Why                 string
}

var rules = []rule{
	{
		From:  []string{"lease", "internal/node", "cmd/node", "cmd/leasectl"},
		Never: []string{"sim", "scenarios", "cmd/simulate"},
		Why:   "who imports the library compiles nothing of the storm",
	},
	{
		From: []string{"sim/history", "sim/fault", "sim/check", "sim/report", "sim/page"}, Never: []string{"lease", "internal/core"},
		Why: "the judge shares nothing with the accused",
	},
	{
		From: []string{"sim/history", "sim/fault"}, Never: []string{"sim"}, Except: []string{"sim/history", "sim/fault", "sim/timing"},
		Why: "records and plans know no engine",
	},
	{
		From: []string{"sim/check", "sim/report", "sim/page"}, Never: []string{"sim/real", "sim/virtual", "sim/mutant"},
		Why: "the judge reads saved files and runs nothing",
	},
	{
		From: []string{"sim/real"}, Never: []string{"internal/core", "lease"},
		Why: "the real engine knows a node only by its protocol",
	},
	{
		From: []string{"lease", "internal/core", "cmd/node", "internal/node", "cmd/leasectl"}, Never: []string{"sim/mutant"},
		Why: "a lease that is broken on purpose is never reachable from production code",
	},
	{
		From: []string{"internal/node", "cmd/node"}, Never: []string{"internal/redisstore", "internal/core"},
		Except: []string{
			"lease", "lease/poll", "lease/election", "lease/intent", "lease/intent/api", "lease/intent/store", "lease/intent/worker",
			"lease/redisstore",
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
		From: []string{"lease/poll", "lease/election", "lease/intent", "lease/metrics", "lease/redisstore", "lease/slogcore", "lease/traces",
			"internal/node", "cmd", "examples", "sim"},
		Never: []string{"lease/leasetest"},
		Why:   "what is for tests, with a Redis in memory, is in no program that uses leases",
	},
	{
		From: []string{"lease/leasetest"}, Never: []string{"sim", "internal"}, Except: []string{"internal/leasedoor"},
		Why: "tests of users reach instances by one door only",
	},
	{
		From: []string{"lease/poll", "lease/election", "lease/intent", "lease/metrics", "lease/redisstore", "lease/slogcore", "lease/leasetest",
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

// Each rule must be able to fail: a graph that breaks it in two steps is refused.
func TestImportRulesCatch(t *testing.T) {
	for _, r := range rules {
		t.Run(r.Why, func(t *testing.T) {
			never := r.Never[0] + "/broken"
			g := graph{r.From[0]: {"internal/between", "fmt"}, "internal/between": {never}}
			if len(r.broken(g)) != 1 {
				t.Errorf("%v → internal/between → %v is not refused", r.From[0], never)
			}
			if s := r.broken(graph{r.From[0]: {"fmt"}, "elsewhere": {never}}); len(s) != 0 {
				t.Errorf("refused without reason: %v", s)
			}
		})
	}
}

// pureStd is all that the rules of leases may import: packages without I/O, clocks, locks and randomness.
var pureStd = []string{"cmp", "errors", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "unique"}

func TestCoreImportsOnlyPurePackages(t *testing.T) {
	for path, imports := range graphOf(loaded(t)) {
		if !under(path, "internal/core") {
			continue
		}
		for _, imp := range imports {
			if !slices.Contains(pureStd, imp) && !under(imp, "internal/core") {
				t.Errorf("%s imports %s: the core computes, it may import only %v", path, imp, pureStd)
			}
		}
	}
}

// Who imports what holds leases compiles no metrics and no traces, by whatever way they would come.
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

// scenarioImports is all that a scenario needs to state a promise and read a verdict. sim/real is there for the process
// that cleans up behind a run, which is started from the test's own binary; sim/sentinel has a storm and a verdict of its own;
// containertest finds the engine for those that are played in containers.
var scenarioImports = []string{"internal/containertest", "sim", "sim/check", "sim/fault", "sim/real", "sim/sentinel"}

func TestScenariosHaveNoLogic(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if !under(s.path, "scenarios") {
			continue
		}
		seen++
		for _, imp := range s.importPaths() {
			path, inside := strings.CutPrefix(imp, module+"/")
			if inside && !slices.Contains(scenarioImports, path) {
				t.Errorf("%s imports %s: a scenario may use %v only", s.path, imp, scenarioImports)
			}
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.ForStmt, *ast.GoStmt, *ast.SelectStmt, *ast.SwitchStmt:
				t.Errorf("%s: a scenario decides nothing: the storm is sim's, the verdict too", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no scenarios found")
	}
}

// tracesImports is the API of OpenTelemetry without its SDK, which a program chooses.
var tracesImports = []string{"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/trace"}

// Pulling the embedded Redis, the proxies or the command line into production would be an accident.
func TestLibraryDependencies(t *testing.T) {
	allowed := []string{
		"github.com/redis/go-redis/v9", "go.uber.org/zap", "github.com/google/uuid", "github.com/Masterminds/semver/v3",
		"golang.org/x/time/rate",
	}
	for path, imports := range graphOf(loaded(t)) {
		if !under(path, "lease", "internal/redisstore") || strings.HasSuffix(path, "test") {
			continue
		}
		for _, imp := range imports {
			foreign := strings.Contains(strings.Split(imp, "/")[0], ".")
			optional := under(path, "lease/metrics", "lease/intent/metrics") && under(imp, "github.com/prometheus/client_golang") ||
				path == "lease/traces" && slices.Contains(tracesImports, imp)
			if foreign && !optional && !under(imp, allowed...) {
				t.Errorf("%s imports %s: the library leans on %v only", path, imp, allowed)
			}
		}
	}
}
