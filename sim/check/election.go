package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// electionSystem is the system of leader election: E1 to E7 (docs/guarantees.md). Leadership is one lease that every instance
// wants, and the leader's writes to the resource are to it what polls are to a session, so E1 to E5 begin with what judges
// polling and add what is theirs.
var electionSystem = &system{
	guarantees: []Verdict{
		{ID: "E1", Spec: []string{}, Unit: "ms of overlap"},
		{ID: "E2", Spec: []string{}, Unit: "writes of two leaders"},
		{ID: "E3", Spec: []string{}, Unit: "fences that fell"},
		{ID: "E4", Spec: []string{}, Unit: "ms"},
		{ID: "E5", Spec: []string{}, Unit: "breaches"},
		{ID: "E6", Spec: []string{}, Unit: "wrong events"},
		{ID: "E7", Spec: []string{}, Unit: "commands"},
	},
	safety: 3,
	checkers: func(*Logs) []checker {
		fences := &g3{}
		return []checker{&g1{fences: fences}, &e2{}, fences, &e4{}, &e5{}, &e6{}, &g14{needs: electionNeeds}}
	},
	exercises: electionExercises,
}

// silent are the faults that cut a living leader off from Redis, or stop it.
var silent = []fault.Kind{
	fault.Cut, fault.BlackHole, fault.RequestsLost, fault.RepliesLost, fault.Freeze, fault.Suspend,
}

func electionExercises(p Params, id string) bool {
	limit := p.TTL + failoverAllowance
	several := p.Nodes > 1
	switch id {
	case "E1", "E2", "E3":
		return several && p.hits(0, fault.Crash, fault.Terminate) || p.hits(limit, silent...) && several
	case "E4":
		return several && p.alone(limit, fault.Crash, fault.Terminate) && p.hits(0, fault.Crash, fault.Terminate)
	case "E5":
		return p.hits(p.Renew+p.RenewTimeout, silent...) || p.lasts(p.Renew+p.RenewTimeout, fault.RedisOutage, fault.RedisWipe,
			fault.RedisFreeze) || p.lasts(p.Renew+p.RenewTimeout, refusing(fault.RefusesAll)...)
	case "E6":
		return p.Nodes > 0
	case "E7":
		return p.counts()
	}
	return false
}

// hits reports whether the plan aims a fault of one of the kinds at whoever leads, lasting at least so long. Whether it found
// one, and whom, is for the history to say.
func (p Params) hits(d time.Duration, kinds ...fault.Kind) bool {
	for _, f := range p.Plan.Faults {
		for _, k := range kinds {
			if f.Kind == k && f.Aims() && f.For >= d {
				return true
			}
		}
	}
	return p.has(fault.CrashAll)
}
