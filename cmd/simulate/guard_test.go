package main

import (
	"testing"

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
