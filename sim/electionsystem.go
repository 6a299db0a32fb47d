package sim

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/mutant/sovereign"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// electionSystem is leader election: one lease, the leader key, that every instance wants. The leader writes to the polled
// target as an owner polls a session.
var electionSystem = &system{sessions: 1, sessionsMax: 1, faults: electionFaults, virtual: electionVirtual}

// Keys of an election, those of the specification.
const (
	leaderKey       = "sovereign:leader"
	heartbeatPrefix = "sovereign:heartbeat:"
)

func electionFaults(k fault.Kind) error {
	if k.Has(fault.Alters) {
		return fmt.Errorf("%w: %q: an election has no sessions that come and go", ErrPointless, string(k))
	}
	return nil
}

func electionVirtual(_ Config, v *virtual.Config) {
	v.Candidates, v.Lease, v.Election = true, leaderKey, &virtual.Election{}
}

// Sovereign makes every instance of a virtual election a member that follows the Sovereign document to the letter: the
// mutant that the storm must catch. Slots for which ours returns true stay this library's (nil: none does).
func Sovereign(ours func(slot int) bool) Breaker {
	return func(v *virtual.Config) {
		ttl := v.TTL
		v.Foreign = func(i virtual.Instance) foreign.Machine {
			if ours != nil && ours(i.Slot) {
				return nil
			}
			return sovereign.New(sovereign.Config{
				Instance: i.ID, LeaderKey: leaderKey, HeartbeatPrefix: heartbeatPrefix, TTL: ttl, Grace: sovereignGrace,
				Election: ttl / 2, Heartbeat: ttl / 3, StartDelay: i.Delay,
			})
		}
	}
}

// sovereignGrace is how much longer than the leader key a heartbeat lives.
const sovereignGrace = 5 * time.Second
