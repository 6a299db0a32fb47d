package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
)

var launchers = sides{"in containers", "in processes"}

// A plan gives the same verdicts wherever the nodes and Redis run.
func TestLaunchersAgree(t *testing.T) {
	if !*all {
		t.Skip("it takes minutes: -args -all")
	}
	redis := real.RedisChoice{Kind: "container", Image: containertest.Redis(t, containertest.Engine(t))}
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
	runs.Wait()
	if t.Failed() {
		return
	}
	for _, p := range pairs {
		p.sameVerdicts(t)
	}
}

func build(t *testing.T, node string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", node, "../../cmd/node")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("build the node: %v\n%s", err, out)
	}
	return node
}

// launched plays a plan with nodes and Redis in containers, and with processes.
func launched(t *testing.T, redis real.RedisChoice, node, name string, faults []fault.Fault) pair {
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
	beside, err := play(t, c, real.RedisChoice{Kind: "server"}, sim.Launcher{Node: []string{node}})
	if err != nil {
		t.Errorf("%s in processes: %v", name, err)
		return p
	}
	p.first, p.second, p.dir = inside.Report, beside.Report, inside.Dir
	return p
}
