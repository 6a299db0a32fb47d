package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/guest/wasm"
	"github.com/leasestorm/leasestorm/sim/leasenode"
	"github.com/leasestorm/leasestorm/sim/report"
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
	ctx := cmd.Context()
	kind, words := sim.KindOf(nodeCmd)
	env, _ := sim.NodeCommand(words)
	argv := sim.StartedBy(nodeCmd)
	if len(argv) > 1 {
		return fmt.Errorf("%s: a Go program in virtual time has no arguments: leave out %q", argv[0], argv[1:])
	}
	var extra wasm.Overlay
	if kind == report.GoLease {
		node, err := leasenode.Overlay(ctx, argv[0])
		if err != nil {
			return err
		}
		extra, env = node, append(env, "LEASESTORM_LEASE_OPTIONS="+strings.Join(options(words), " "))
	}
	module, err := wasm.Build(ctx, argv[0], extra)
	if err != nil {
		return fmt.Errorf("build %s for virtual time: %w", argv[0], err)
	}
	compiled, err := wasm.Compile(ctx, module)
	if err != nil {
		return fmt.Errorf("compile %s: %w", argv[0], err)
	}
	f.starter = func(all []string, h guest.Host) guest.Program {
		return compiled.Start(slices.Concat(env, all), h) // the first variable of a name counts
	}
	return nil
}

// options returns the options of a lease command.
func options(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, "--") })
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
