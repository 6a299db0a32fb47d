package sim

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Bounds of a storm of intents.
const (
	ServicesDefault = 100   // --sessions: services, each with a client
	ServicesMax     = 2_000 // each client is a goroutine with connections of its own
)

// Which slots are in phase 1 of ADR-003's migration: their API takes the lease of a service itself.
const (
	APILeasesOff   = "off"
	APILeasesOn    = "on"
	APILeasesMixed = "mixed" // every other slot: the migration while it is under way
)

// intents is the third system: APIs that accept intents, workers that own leases in pairs, clients and tuners.
var intents = &system{
	sessions: ServicesDefault, sessionsMax: ServicesMax, share: 4, virtual: intentsVirtual,
	faults: func(k fault.Kind) error {
		if k.Scope() == fault.ScopeSession {
			return fmt.Errorf("%w: %q hits polling sessions", ErrPointless, k)
		}
		return noBeats(k)
	},
	real: func(c Config, rc *real.Config) {
		rc.Tuners = c.tuners()
		rc.Phase1 = c.phase1
	},
}

// owns returns which slots' nodes can own leases, nil if all can: a third of a fleet of intents are APIs only.
func (c Config) owns() func(slot int) bool {
	if c.System != SystemIntents || c.Nodes < 3 {
		return nil
	}
	return func(slot int) bool { return slot%3 != 1 }
}

func intentsVirtual(c Config, v *virtual.Config) {
	v.Candidates = true
	v.Intents = &virtual.Intents{
		Tuners: c.tuners(), Phase1: c.phase1,
		Role: func(slot int) string {
			if c.Nodes < 3 {
				return "both"
			}
			return []string{"both", "api", "worker"}[slot%3]
		},
	}
}

// phase1 reports whether a slot's API takes the lease of a service itself.
func (c Config) phase1(slot int) bool {
	return c.APILeases == APILeasesOn || c.APILeases == APILeasesMixed && slot%2 == 1
}

// tuners is how many slots the workers of intents share: fewer than services, so that some find none.
func (c Config) tuners() int {
	if c.System != SystemIntents {
		return 0
	}
	return max(1, c.Sessions/2)
}
