package sim

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

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
