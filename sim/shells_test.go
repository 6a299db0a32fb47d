package sim

import (
	"context"
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/guest/wasm"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

var (
	shellsFirst = flag.Uint64("shells-first", 1, "first seed of TestShellsAgreeLong")
	shellsSeeds = flag.Uint64("shells-seeds", 200, "seeds of TestShellsAgreeLong for each system; an election has half as many")
)

// figures count what the leases of runs went through since the storm began. In a cold start, the engine's instances do not greet Redis, and
// read all that a discovery needs in two round trips, so the first one acquires more that it then hands over.
type figures struct{ grants, takeovers, renewals int64 }

func (f *figures) add(o figures) {
	f.grants += o.grants
	f.takeovers += o.takeovers
	f.renewals += o.renewals
}

// played is a run of one shell.
type played struct {
	Result
	figures
	last  map[string]string // last owner of each session
	owner map[string]string // node of the present owner of each session
	alive map[string]int    // number of leases of each node that runs
	owned []int             // the same at the end, sorted
}

// drawShell draws a small run as an exploration does, without the faults that no guest shows.
func drawShell(t *testing.T, system string, seed uint64) (Config, fault.Plan) {
	t.Helper()
	s := Scenario{System: system, Nodes: 2 + int(seed%4), Faults: []fault.Kind{"-" + fault.CheckSend}}
	if system == SystemPolling {
		s.Sessions = 1 + int(seed%20)
	}
	c, plan, err := s.Swarm(seed)
	if err != nil {
		t.Fatal(err)
	}
	return c, plan
}

// playShell plays a drawn run with the instances that bend chooses.
func playShell(t *testing.T, c Config, plan fault.Plan, bend Breaker) *played {
	t.Helper()
	c.Plan = &plan
	dir := t.TempDir()
	r, err := Run(t.Context(), c, Options{Engine: NewVirtual(bend), Reports: dir})
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	p := &played{Result: r, last: map[string]string{}, owner: map[string]string{}, alive: map[string]int{}}
	for e, err := range history.Open(r.Dir) {
		if err != nil {
			t.Fatal(err)
		}
		p.see(&e)
	}
	for _, node := range p.owner {
		p.alive[node]++
	}
	p.owned = slices.Sorted(maps.Values(p.alive))
	if err := os.RemoveAll(dir); err != nil { // hundreds of runs
		t.Error(err)
	}
	return p
}

func (p *played) see(e *history.Event) {
	switch e.Kind {
	case history.Phase:
		if e.Reason == "storm" {
			p.figures = figures{}
		}
	case history.Spawned:
		p.alive[e.Node] = 0
	case history.Exited:
		delete(p.alive, e.Node)
		maps.DeleteFunc(p.owner, func(_, node string) bool { return node == e.Node })
	case history.Acquired:
		p.grants++
		if was := p.last[e.Session]; was != "" && was != e.Instance {
			p.takeovers++
		}
		p.last[e.Session], p.owner[e.Session] = e.Instance, e.Node
	case history.Renewed:
		p.renewals++
	case history.Lost, history.Released:
		if p.last[e.Session] == e.Instance {
			delete(p.owner, e.Session)
		}
	}
}

// The engine's instances have a shell of their own. Over the same plans, it behaves as that of the packages lease, poll and election.
func TestShellsAgreeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it plays 300 storms twice")
	}
	module, err := wasm.Build(t.Context(), filepath.Join("..", "cmd", "node"), nil)
	if err != nil {
		t.Fatal(err)
	}
	node, err := wasm.Compile(t.Context(), module)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close(context.Background()) })
	for _, system := range []string{SystemPolling, SystemElection} {
		seeds := *shellsSeeds
		if system == SystemElection {
			seeds /= 2
		}
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			var own, real figures
			for seed := *shellsFirst; seed < *shellsFirst+seeds; seed++ {
				c, plan := drawShell(t, system, seed)
				a := playShell(t, c, plan, nil)
				b := playShell(t, c, plan, func(v *virtual.Config) { v.Guest = node.Start })
				sameShell(t, a, b)
				own.add(a.figures)
				real.add(b.figures)
			}
			t.Logf("engine %+v, package lease %+v", own, real)
			near(t, "grants", own.grants, real.grants)
			near(t, "takeovers", own.takeovers, real.takeovers)
			near(t, "renewals", own.renewals, real.renewals)
		})
	}
}

func sameShell(t *testing.T, a, b *played) {
	t.Helper()
	seed := a.Config.Seed
	t.Logf("seed %d: %+v %v, %+v %v", seed, a.figures, a.owned, b.figures, b.owned)
	for i, v := range a.Report.Guarantees {
		w := b.Report.Guarantees[i]
		if v.Verdict != w.Verdict {
			say := t.Logf
			if v.Verdict == check.Fail || w.Verdict == check.Fail {
				say = t.Errorf
			}
			say("seed %d: %s is %s in the engine (%s), %s with package lease (%s)", seed, v.ID, v.Verdict, v.Detail, w.Verdict, w.Detail)
		}
	}
	same := slices.Equal(a.owned, b.owned)
	if len(a.owned) != len(b.owned) { // a stop found its target in one of them only
		same = sum(a.owned) == sum(b.owned)
	}
	if !same {
		t.Errorf("seed %d: at rest, nodes own %v in the engine, %v with package lease", seed, a.owned, b.owned)
	}
	if a.Outcome.Fell != b.Outcome.Fell {
		t.Errorf("seed %d: fell: %q, %q", seed, a.Outcome.Fell, b.Outcome.Fell)
	}
}

func sum(of []int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

func near(t *testing.T, what string, a, b int64) {
	t.Helper()
	if math.Abs(float64(a-b)) > 0.05*float64(max(a, b)) {
		t.Errorf("%s: %d in the engine, %d with package lease", what, a, b)
	}
}
