package core_test

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// promiser looks at an instance's promises and entries after each of its steps.
type promiser struct {
	*core.Core
	t    *testing.T
	seen *int
}

func (p *promiser) Step(ev core.Event) core.Effects {
	eff := p.Core.Step(ev)
	n, err := p.Promises()
	if err != nil {
		p.t.Fatalf("after an event of kind %d: %v", ev.Kind, err)
	}
	if err := p.Entries(); err != nil {
		p.t.Fatalf("after an event of kind %d: %v", ev.Kind, err)
	}
	*p.seen += n
	return eff
}

// A session that was released to another instance is a promise or an entry of a lease, never both and never neither by
// half: whatever is heard of it finds the one that counts (G6, G8). And what is known of a session tells whether it has an entry.
func TestStormPromises(t *testing.T) {
	seen := 0
	for seed := range uint64(60) {
		cfg, plan := virtual.Swarm(seed)
		cfg.New = func(c core.Config) virtual.Machine { return &promiser{Core: core.New(c), t: t, seen: &seen} }
		play(t, cfg, plan, seed)
	}
	if seen == 0 {
		t.Error("no step of any storm had a session promised")
	}
}
