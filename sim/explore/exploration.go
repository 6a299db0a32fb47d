package explore

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
)

// Exploration is a range of seeds to run in virtual time. sim.Scenario.Swarm draws each, and the judge judges it in memory.
type Exploration struct {
	Scenario  sim.Scenario // given values for every seed; the rest is drawn
	Seeds     SeedRange
	Shard     Shard
	Parallel  int    // simultaneous runs; at least 1
	KeepGoing bool   // continue after a failed seed
	Resume    bool   // continue the same exploration if it ran before
	Reports   string // folder for the state and the folders of failed seeds; default "reports"

	Progress func(Progress) // called about once a second from one goroutine; nil: not called
	// Saved, if set, is called with each failed seed's run once it has a folder, from up to Parallel goroutines at once.
	Saved func(sim.Result)
	Bend  sim.Breaker // changes each virtual run, for example to break it; nil: no change
}

func (x Exploration) check() error {
	if x.Parallel < 1 || x.Parallel > 1024 {
		return wrong("parallel", "%d is out of range: 1 to 1024 runs at a time", x.Parallel)
	}
	if err := checkRange(x.Seeds, x.Shard); err != nil {
		return err
	}
	_, _, err := x.Scenario.Swarm(x.Seeds.From)
	return err
}

// criteria returns the guarantees that decide an exploration: the named ones, or all of the system.
func criteria(system string, named []string) []string {
	if len(named) > 0 {
		return named
	}
	return check.IDs(system)
}

// StateFile returns the path of the exploration's state.
func (x Exploration) StateFile() string { return x.stateName() + ".jsonl" }

func (x Exploration) stateName() string {
	name := fmt.Sprintf("explore-%d-%d", x.Seeds.From, x.Seeds.To)
	if system := cmp.Or(x.Scenario.System, sim.SystemPolling); system != sim.SystemPolling {
		name += "-" + system
	}
	if x.Shard.Of > 1 {
		name += fmt.Sprintf("-shard-%d-of-%d", x.Shard.Index, x.Shard.Of)
	}
	return filepath.Join(x.Reports, name)
}
