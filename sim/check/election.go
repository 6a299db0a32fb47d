package check

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// electionSystem is the system of leader election: E1 to E7 (docs/guarantees.md). Leadership is one lease that every instance wants, and
// the leader's writes are its polls. So E1 to E5 reuse the rules for polling.
var electionSystem = &system{
	name: SystemElection,
	guarantees: []guarantee{
		{Verdict{ID: "E1", Spec: []string{}, Unit: "ms of overlap"}, "one leader"},
		{Verdict{ID: "E2", Spec: []string{}, Unit: "writes of two leaders"}, "one writer"},
		{Verdict{ID: "E3", Spec: []string{}, Unit: "fences that fell"}, "fences rise"},
		{Verdict{ID: "E4", Spec: []string{}, Unit: "ms"}, "failover"},
		{Verdict{ID: "E5", Spec: []string{}, Unit: "breaches"}, "says so"},
		{Verdict{ID: "E6", Spec: []string{}, Unit: "wrong events"}, "events"},
		{Verdict{ID: "E7", Spec: []string{}, Unit: "commands"}, "quiet"},
	},
	safety: 3,
	checkers: func(*Logs) []checker {
		return []checker{&g1{}, &e2{}, &g3{}, &e4{}, &e5{}, &e6{}, &g14{}}
	},
	exercises: electionExercises,
}

// silent has the effects of faults that cut a living leader off from Redis, or freeze it.
const silent = fault.Partitions | fault.Freezes

func electionExercises(p Params, id string) bool {
	limit := p.TTL + failoverAllowance
	several := p.Nodes > 1
	switch id {
	case "E1", "E2", "E3":
		return several && (p.hits(0, fault.Kills|fault.Stops) || p.hits(limit, silent))
	case "E4":
		return several && p.alone(limit, fault.Crash, fault.Terminate) && p.hits(0, fault.Kills|fault.Stops)
	case "E5":
		return p.hits(p.Renew+p.RenewTimeout, silent) || p.unanswered(p.Renew+p.RenewTimeout, fault.Denies)
	case "E6":
		return p.Nodes > 0
	case "E7":
		return p.counts()
	}
	return false
}

// hits reports whether the plan aims such a fault at the leader for at least d. Only the history shows whether it hit one.
func (p Params) hits(d time.Duration, any fault.Effect) bool {
	return p.count(fault.CrashAll) > 0 || slices.ContainsFunc(p.Plan.Faults, func(f fault.Fault) bool {
		return f.Kind.Has(any) && f.Aims() && f.For >= d
	})
}
