// Package gonode builds the Go programs that run in virtual time as nodes, or as the adapters of their leases.
package gonode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/guest/wasm"
	"github.com/leasestorm/leasestorm/sim/leasenode"
	"github.com/leasestorm/leasestorm/sim/report"
)

// Build builds the program of a NodeCmd that sim.IsGo, and returns what starts it. Several runs at once may start it.
func Build(ctx context.Context, nodeCmd []string) (guest.Starter, error) {
	kind, words := sim.KindOf(nodeCmd)
	env, _ := sim.NodeCommand(words)
	argv := sim.StartedBy(nodeCmd)
	if len(argv) > 1 {
		return nil, fmt.Errorf("%s: a Go program in virtual time has no arguments: leave out %q", argv[0], argv[1:])
	}
	var extra wasm.Overlay
	if kind == report.GoLease {
		node, err := leasenode.Overlay(ctx, argv[0])
		if err != nil {
			return nil, err
		}
		extra, env = node, append(env, "LEASESTORM_LEASE_OPTIONS="+strings.Join(options(words), " "))
	}
	module, err := wasm.Build(ctx, argv[0], extra)
	if err != nil {
		return nil, fmt.Errorf("build %s for virtual time: %w", argv[0], err)
	}
	compiled, err := wasm.Compile(ctx, module)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", argv[0], err)
	}
	return func(all []string, h guest.Host) guest.Program {
		return compiled.Start(slices.Concat(env, all), h) // the first variable of a name counts
	}, nil
}

// options returns the options of a lease command.
func options(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, "--") })
}
