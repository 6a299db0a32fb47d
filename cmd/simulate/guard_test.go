package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/heldtest"
	"github.com/leasestorm/leasestorm/sim"
)

// All that nodes say is remembered, so that those of others are watched however they come into a run.
func TestNodesOfOthersAreWatched(t *testing.T) {
	for want, f := range map[string]flags{"": {}, "image:1": {nodeImage: "image:1"}, "fleet": {compose: "fleet"}} {
		if got := f.others(sim.Config{}); got != want {
			t.Errorf("nodes of others: %q, want %q", got, want)
		}
	}
	f := flags{nodeImage: "image:1"}
	if got := f.others(sim.Config{NodeCmd: []string{"python3", "node.py"}}); got != "python3 node.py" {
		t.Errorf("nodes of others: %q", got)
	}
}

type closing struct {
	sim.Engine
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// A fleet that goes on is left whole before the program ends, which in a container ends its reaper too.
func TestRefusalLeavesTheFleetWhole(t *testing.T) {
	for _, refused := range []bool{false, true} {
		engine, code := &closing{}, 0
		g := &guard{}
		g.over.Store(refused)
		l := leaving{engine, g, func(c int) { code = c*10 + engine.closed }}
		if err := l.Close(); err != nil || engine.closed != 1 {
			t.Errorf("closed %d times: %v", engine.closed, err)
		}
		if want := map[bool]int{true: exitWrong*10 + 1}[refused]; code != want {
			t.Errorf("refused %v: ended as %d, want %d", refused, code, want)
		}
	}
}

// Whoever reaches the ports of a run of this program's own nodes can have it remember too much as well. How large it may be is up to who
// started it.
func TestRunsOfOwnNodesAreWatched(t *testing.T) {
	c, err := (sim.Scenario{Nodes: 100, Sessions: 20_000, Speed: 1, Duration: 30 * time.Minute}).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	f := flags{}
	f.watched(c, nil, nil)
	t.Cleanup(func() { f.guard.allow(math.MaxInt64) }) // of all tests that come
	if f.guard == nil || f.guard.name != ownRun {
		t.Fatalf("guard: %+v", f.guard)
	}
	if may := f.guard.limit.Load(); may <= memoryMax+memoryMaxLarge {
		t.Errorf("a run as large as that may take %d MiB", may>>20)
	}
	small, err := (sim.Scenario{Nodes: 3, Sessions: 10}).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if f.watched(small, nil, nil); f.guard.limit.Load() > memoryMax+memoryMax/4 {
		t.Errorf("a small run may take %d MiB", f.guard.limit.Load()>>20)
	}
}

// A hole in a file lifts no limit: it costs nothing.
func TestHolesAreNoSize(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "history.jsonl.zst")
	if err := os.WriteFile(file, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := sizeOf(os.Stat(file))
	if err := os.Truncate(file, 1<<32); err != nil {
		t.Fatal(err)
	}
	if size := sizeOf(os.Stat(file)); whole != 1<<16 || size < whole || size > 2*whole {
		t.Errorf("%d bytes, and %d with a hole of 4 GiB", whole, size)
	}
	run := heldtest.Dir(t, dir)
	if memoryFor(run) > memoryMax+1<<20 || memoryForShards(file) > memoryMax+memoryShard<<20 {
		t.Errorf("judging may take %d bytes, adding up %d", memoryFor(run), memoryForShards(file))
	}
}
