package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/mutant"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// survived is the result of a change that breaks no guarantee.
const survived = "survived"

// play plays a fixed set of seeds of each system and prints the first broken guarantee, or survived. script names a script that the text on
// standard input replaces; "": none.
func play(ctx context.Context, script string) error {
	two := 2
	bend, err := replaced(script)
	if err != nil {
		return err
	}
	for _, storms := range []struct {
		sim.Scenario
		seeds uint64
	}{
		{sim.Scenario{System: sim.SystemPolling}, 60},
		{sim.Scenario{System: sim.SystemElection}, 100},
		{sim.Scenario{System: sim.SystemPolling, Topology: sim.TopologySentinel, Replicas: &two}, 30},
		{sim.Scenario{System: sim.SystemIntents}, 10},
	} {
		for seed := uint64(1); seed <= storms.seeds; seed++ {
			broken, err := mutant.Broken(ctx, &storms.Scenario, seed, bend)
			if err != nil {
				return err
			}
			if len(broken) > 0 {
				fmt.Println(broken[0].ID)
				return nil
			}
		}
	}
	fmt.Println(survived)
	return nil
}

// replaced runs the text on standard input in place of a script; "": the library runs its Go twins.
func replaced(file string) (sim.Breaker, error) {
	if file == "" {
		return nil, nil
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	by, err := io.ReadAll(os.Stdin)
	return sim.Interpreted(func(v *virtual.Config) {
		v.Seams.Script = func(text string) string { return strings.Replace(text, string(old), string(by), 1) }
	}), err
}
