package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Names of the systems: what the nodes of a run share.
const (
	SystemPolling  = check.SystemPolling
	SystemElection = check.SystemElection
	SystemIntents  = check.SystemIntents
)

// system is what differs between systems outside the judge (check.Params.System): its defaults, what cannot be injected in it,
// and what its engines are told. One entry in systems, one in check, and a program for the nodes of each engine make one.
type system struct {
	sessions    int                           // at the start, if the scenario does not say
	sessionsMax int                           //
	share       int                           // seeds draw this part of the sessions that they draw for polling; 0: all
	faults      func(fault.Kind) error        // why a kind makes no sense in it; nil: all do
	virtual     func(Config, *virtual.Config) // completes what the virtual engine is told; nil: nothing to add
	real        func(Config, *real.Config)    // the same for the real engine
}

// systems has every system that this version can run.
var systems = map[string]*system{
	SystemPolling:  {sessions: SessionsDefault, sessionsMax: SessionsMax, faults: noBeats},
	SystemElection: electionSystem,
	SystemIntents:  intents,
}

// drawn is how many sessions a run has that draws n.
func (s *system) drawn(n int) int { return 1 + (n-1)/max(1, s.share) }

// ErrPointless: the kind of fault hits what the system does not have.
var ErrPointless = errors.New("makes no sense in this system")

// noBeats refuses what hits the time that a heartbeat holds, where heartbeats hold none.
func noBeats(k fault.Kind) error {
	if k == fault.BeatStale {
		return fmt.Errorf("%w: %q: only in an election does a heartbeat hold a time", ErrPointless, string(k))
	}
	return nil
}

// pointless returns why a kind of fault makes no sense in the run's system.
func (c Config) pointless(k fault.Kind) error {
	s := systems[c.System]
	if s == nil || s.faults == nil {
		return c.misplaced(k)
	}
	return cmp.Or(c.misplaced(k), s.faults(k))
}

// checkSystem refuses systems that exist nowhere.
func (c Config) checkSystem() error {
	if systems[c.System] == nil {
		return wrong("system", "unknown system %q: known are %s (flag --system)", c.System, strings.Join(check.Systems(), ", "))
	}
	return nil
}

// checkCriteria refuses guarantees that the system does not have.
func (c Config) checkCriteria() error {
	ids := check.IDs(c.System)
	for _, name := range c.Criteria {
		if !slices.Contains(ids, name) {
			return wrong("criteria", "unknown guarantee %q: known are %s (of %s)", name, strings.Join(ids, ", "), c.System)
		}
	}
	return nil
}

// sessionsOf is a sentence about how many sessions a system can have, where that is not what a typing error gives.
func (s *system) sessionsOf() string {
	if s.sessionsMax == 1 {
		return "exactly 1 is possible in this system"
	}
	return fmt.Sprintf("1 to %d", s.sessionsMax)
}
