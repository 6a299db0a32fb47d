package main

import (
	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/gonode"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// buildGuest builds the Go program that a run in virtual time has as nodes, if it has one and may. f.bend then starts it.
func (f *player) buildGuest(cmd *cobra.Command, nodeCmd []string) error {
	if !sim.IsGo(nodeCmd) {
		return nil
	}
	if err := f.mayStart(cmd, nodeCmd); err != nil {
		return err
	}
	var err error
	f.starter, err = gonode.Build(cmd.Context(), nodeCmd)
	return err
}

// bend breaks the virtual engine's instances. Only tests set it.
var bend sim.Breaker

// bend returns what changes virtual runs, after buildGuest.
func (f *environment) bend() sim.Breaker {
	b := bend
	if start := f.starter; start != nil {
		b = func(v *virtual.Config) { v.Guest = start }
	}
	if f.lua {
		return sim.Interpreted(b)
	}
	return b
}
