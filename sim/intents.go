package sim

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Bounds of an intent storm.
const (
	DefaultServices = 100   // --sessions: services, each with one client
	ServicesMax     = 2_000 // each client is a goroutine with its own connections
)

// Slots in phase 1 of ADR-003's migration: their API acquires a service's lease itself.
const (
	APILeasesOff   = "off"
	APILeasesOn    = "on"
	APILeasesMixed = "mixed" // every other slot, as during the migration
)

// intents is the third system: APIs accept intents, workers own pairs of leases, and clients and tuners surround them.
var intents = &system{
	sessions: DefaultServices, sessionsMax: ServicesMax, share: 4, virtual: intentsVirtual,
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

// owns reports which slots' nodes can own leases; nil means all. A third of an intent fleet are APIs only.
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

func (c Config) phase1(slot int) bool {
	return c.APILeases == APILeasesOn || c.APILeases == APILeasesMixed && slot%2 == 1
}

// tuners returns the number of slots that the workers share: fewer than the services, so that some services get none.
func (c Config) tuners() int {
	if c.System != SystemIntents {
		return 0
	}
	return max(1, c.Sessions/2)
}
