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

// Names of the systems, each with the resource that the nodes of a run share.
const (
	SystemPolling  = check.SystemPolling
	SystemElection = check.SystemElection
	SystemIntents  = check.SystemIntents
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

func (c Config) pointless(k fault.Kind) error {
	s := systems[c.System]
	if s == nil || s.faults == nil {
		return c.misplaced(k)
	}
	return cmp.Or(c.misplaced(k), s.faults(k))
}

func (c Config) checkSystem() error {
	if systems[c.System] == nil {
		return wrong("system", "unknown system %q: known are %s (flag --system)", c.System, strings.Join(check.Systems(), ", "))
	}
	return nil
}

func (c Config) checkCriteria() error {
	ids := check.IDs(c.System)
	for _, name := range c.Criteria {
		if !slices.Contains(ids, name) {
			return wrong("criteria", "unknown guarantee %q: known are %s (of %s)", name, strings.Join(ids, ", "), c.System)
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
