package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/mutant"
)

var launchers = sides{"in containers", "in processes"}

// mutants are nodes with one fault each, and the plan that shows it.
var mutants = []struct{ name, plan string }{
	{"belief-until-told", "blackhole"},
	{"quota-off", "restart"},
	{"fence-constant", "leave-join"},
}

// One plan gives the same verdicts wherever the nodes and Redis run; and what is wrong with a node is found in containers too.
func TestLaunchersAgree(t *testing.T) {
	if !*all {
		t.Skip("it takes minutes: -args -all")
	}
	redis := sim.RedisChoice{Kind: "container", Image: containertest.Redis(t, containertest.Engine(t))}
	dir := t.TempDir()
	node := build(t, filepath.Join(dir, "node"))
	pairs := make([]pair, len(plans))
	var runs sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	do := func(what func()) {
		runs.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			what()
		})
	}
	for i, p := range plans {
		do(func() {
			pairs[i] = decided(t, p.name, func() pair { return launched(t, redis, node, p.name, p.faults) })
		})
	}
	for _, m := range mutants {
		do(func() { broken(t, redis, m.name, m.plan, dir) })
	}
	runs.Wait()
	if t.Failed() {
		return
	}
	for _, p := range pairs {
		p.sameVerdicts(t)
	}
}

func build(t *testing.T, node string, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", node}, flags...), "../../cmd/node")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("build the node: %v\n%s", err, out)
	}
	return node
}

// launched plays a plan in containers, Redis too, and with processes.
func launched(t *testing.T, redis sim.RedisChoice, node, name string, faults []fault.Fault) pair {
	p := pair{name: name, sides: launchers}
	c, err := config(name, faults)
	if err != nil {
		t.Error(err)
		return p
	}
	inside, err := play(t, c, redis, sim.Launcher{Node: []string{node}, Containers: true})
	if err != nil {
		t.Errorf("%s in containers: %v", name, err)
		return p
	}
	c.Plan = &inside.Plan
	beside, err := play(t, c, sim.RedisChoice{Kind: "server"}, sim.Launcher{Node: []string{node}})
	if err != nil {
		t.Errorf("%s in processes: %v", name, err)
		return p
	}
	p.first, p.second, p.dir = inside.Report, beside.Report, inside.Dir
	return p
}

// broken plays a plan with a mutant in containers, which must break its guarantee.
func broken(t *testing.T, redis sim.RedisChoice, name, with, dir string) {
	all := mutant.All()
	m := all[slices.IndexFunc(all, func(m mutant.Mutant) bool { return m.Name == name })]
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Error(err)
		return
	}
	sources := filepath.Join(dir, name)
	if err := os.Mkdir(sources, 0o755); err != nil {
		t.Error(err)
		return
	}
	overlay, err := m.Overlay(root, sources)
	if err != nil {
		t.Error(err)
		return
	}
	node := build(t, filepath.Join(sources, "node"), "-overlay", overlay)
	c, err := config(name, plans[slices.IndexFunc(plans, func(p plan) bool { return p.name == with })].faults)
	if err != nil {
		t.Error(err)
		return
	}
	r, err := play(t, c, redis, sim.Launcher{Node: []string{node}, Containers: true})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, g := range r.Report.Guarantees {
		if g.ID == m.Breaks && g.Verdict != check.Fail {
			t.Errorf("%s: %s is %s (%s; %s), and the mutant breaks it", name, g.ID, g.Verdict, g.Detail, r.Dir)
		}
	}
}
