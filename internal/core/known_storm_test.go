package core_test

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// entered looks at an instance's entries after each of its steps.
type entered struct {
	*core.Core
	t *testing.T
}

func (e *entered) Step(ev core.Event) core.Effects {
	eff := e.Core.Step(ev)
	if err := e.Entries(); err != nil {
		e.t.Fatalf("after an event of kind %d: %v", ev.Kind, err)
	}
	return eff
}

// What is known of a session tells whether it has an entry and is held: whatever is heard of it finds the entry that counts (G6, G8).
func TestStormEntries(t *testing.T) {
	for seed := range uint64(60) {
		cfg, plan := virtualtest.Swarm(seed)
		cfg.New = func(c core.Config) virtual.Machine { return &entered{Core: core.New(c), t: t} }
		play(t, cfg, plan, seed)
	}
}
