package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Names of the systems, each with the resource that the nodes of a run share.
const (
	SystemPolling  = check.SystemPolling
	SystemElection = check.SystemElection
	SystemIntents  = check.SystemIntents
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

// system holds the differences between systems outside the judge (check.Params.System). A new system needs an entry in systems, one in
// check, and a program for the nodes of each engine.
type system struct {
	sessions    int // default at the start
	sessionsMax int
	share       int                           // divisor of the drawn number of sessions; 0 means 1
	faults      func(fault.Kind) error        // why the system refuses a kind; nil: it accepts all
	virtual     func(Config, *virtual.Config) // completes the virtual engine's configuration; nil: nothing to add
	real        func(Config, *real.Config)    // the same for the real engine
}

var systems = map[string]*system{
	SystemPolling:  {sessions: DefaultSessions, sessionsMax: SessionsMax, faults: noBeats},
	SystemElection: electionSystem,
	SystemIntents:  intents,
}

func (s *system) drawn(n int) int { return 1 + (n-1)/max(1, s.share) }

// ErrPointless means that the system lacks the target of a kind of fault.
var ErrPointless = errors.New("makes no sense in this system")

func noBeats(k fault.Kind) error {
	if k == fault.BeatStale {
		return fmt.Errorf("%w: %q: only in an election does a heartbeat hold a time", ErrPointless, string(k))
	}
	return nil
}

func (c Config) checkSystem() error {
	if systems[c.System] == nil {
		return wrong("system", "unknown system %q: choose from %s (flag --system)", c.System, strings.Join(check.Systems(), ", "))
	}
	return nil
}

func (c Config) checkCriteria() error {
	ids := check.IDs(c.System)
	for _, name := range c.Criteria {
		if !slices.Contains(ids, name) {
			return wrong("criteria", "unknown guarantee %q: choose from %s (of %s)", name, strings.Join(ids, ", "), c.System)
		}
	}
	return nil
}

func (s *system) sessionsOf() string {
	if s.sessionsMax == 1 {
		return "exactly 1 is possible in this system"
	}
	return fmt.Sprintf("1 to %d", s.sessionsMax)
}

// electionSystem is leader election: all instances compete for the leader key's lease. The leader writes to the polled target, like an
// owner.
var electionSystem = &system{sessions: 1, sessionsMax: 1, faults: electionFaults, virtual: electionVirtual}

// leaderKey is the leader key of the specification.
const leaderKey = "sovereign:leader"

func electionFaults(k fault.Kind) error {
	if k.Has(fault.Alters) {
		return fmt.Errorf("%w: %q: an election has no sessions that come and go", ErrPointless, string(k))
	}
	return nil
}

func electionVirtual(_ Config, v *virtual.Config) {
	v.Candidates, v.Lease, v.Election = true, leaderKey, &virtual.Election{}
}

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
