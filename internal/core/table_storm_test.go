package core_test

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// In drawn storms, of sessions that are placed and of leases that everybody wants, nothing happens to a lease that the table does not have.
func TestStormTable(t *testing.T) {
	table := core.ReadTable(t)
	for seed := range uint64(60) {
		cfg, plan := virtualtest.Swarm(seed)
		if cfg.Candidates = seed%2 == 1; cfg.Candidates {
			plan.Faults = slices.DeleteFunc(plan.Faults, func(f fault.Fault) bool {
				return f.Kind.Scope() == fault.ScopeSession && f.Kind != fault.KeyDelete // whose sessions come and go, placement sees
			})
		}
		cfg.New = func(c core.Config) virtual.Machine {
			return &core.Witness{Core: core.New(c), Seen: func(h core.Happening) {
				if err := table.Explains(h); err != nil {
					t.Errorf("seed %d, %s: %v", seed, c.Instance, err)
				}
			}}
		}
		play(t, cfg, plan, seed)
	}
}
