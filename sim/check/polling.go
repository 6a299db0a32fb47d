package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// polling is the system of polling sessions: G1 to G14 (docs/guarantees.md).
var polling = &system{
	name: SystemPolling,
	guarantees: []guarantee{
		{Verdict{ID: "G1", Spec: []string{"SC-001", "FR-009", "FR-010", "FR-012"}, Unit: "ms of overlap"}, "one owner"},
		{Verdict{ID: "G2", Spec: []string{"SC-001", "US3"}, Unit: "duplicate polls"}, "one poller"},
		{Verdict{ID: "G3", Spec: []string{}, Unit: "fences that fell"}, "fences rise"},
		{Verdict{ID: "G4", Spec: []string{"FR-012", "FR-016"}, Unit: "polls without trust"}, "fail-closed"},
		{Verdict{ID: "G5", Spec: []string{"SC-002", "FR-017", "US2"}, Unit: "ms"}, "failover"},
		{Verdict{ID: "G6", Spec: []string{"SC-004", "US4"}, Limit: 1, Unit: "leases off ideal"}, "balance"},
		{Verdict{ID: "G7", Spec: []string{"US4-2"}, Unit: "needless moves"}, "least movement"},
		{Verdict{ID: "G8", Spec: []string{"SC-006"}, Unit: "ms unpolled"}, "no missed polls"},
		{Verdict{ID: "G9", Spec: []string{"SC-005"}, Unit: "ms"}, "Redis fails"},
		{Verdict{ID: "G10", Spec: []string{"FR-001", "FR-002", "FR-003"}, Unit: "foreign changes"}, "only the owner"},
		{Verdict{ID: "G11", Spec: []string{"SC-003"}, Limit: instancesNeeded, Unit: "instances at once"}, "scale"},
		{Verdict{ID: "G12", Spec: []string{"FR-019", "FR-020", "FR-021", "FR-022"}, Unit: "entries missing"}, "told"},
		{Verdict{ID: "G13", Spec: []string{"US1-3"}, Limit: failoverAllowance.Milliseconds(), Unit: "ms"}, "clean stop"},
		{Verdict{ID: "G14", Spec: []string{}, Unit: "commands"}, "quiet"},
	},
	safety: 4,
	checkers: func(logs *Logs) []checker {
		owner, poller, fences := &g1{}, &g2{}, &g3{}
		return []checker{
			owner, poller, fences, &g4{}, &g5{}, &g6{}, &g7{}, &g8{},
			&g9{safety: []*hooks{&owner.hooks, &poller.hooks, &fences.hooks}},
			&g10{}, &g11{}, &g12{logs: logs}, &g13{}, &g14{},
		}
	},
	exercises: pollingExercises,
}

// instancesNeeded is the number of instances at once that G11 requires.
const instancesNeeded = 10

// Least reports whether the guarantee's limit is a minimum, not a maximum.
func Least(id string) bool { return id == "G11" }

func pollingExercises(p Params, id string) bool {
	limit := p.TTL + failoverAllowance
	several := p.Nodes > 1
	switch id {
	case "G1", "G2", "G3":
		return several && p.has(fault.Freezes|fault.Partitions) || p.has(fault.Kills|fault.Stops|fault.Starts)
	case "G4":
		return p.unanswered(p.Renew, fault.Partitions|fault.Denies)
	case "G5":
		return several && p.alone(limit, fault.Crash) || p.alone(limit, fault.CrashAll)
	case "G6":
		return p.Sessions > 0
	case "G7":
		return p.quiet(max(p.TTL, time.Duration(p.settle())), fault.Join, fault.Leave)
	case "G8":
		return p.alone(limit+p.Poll, append(fault.Having(fault.Starts|fault.Stops), fault.Crash, fault.SessionAdd)...) ||
			p.alone(p.TTL, fault.BlackHole, fault.Cut)
	case "G9":
		limit = p.Renew + p.Poll + failoverAllowance
		return p.alone(limit, fault.Having(fault.Denies)...)
	case "G10":
		return p.Tap && p.Sessions > 0
	case "G11":
		return p.most() >= instancesNeeded && p.count(fault.Join) > 0 && p.count(fault.Leave) > 0
	case "G12":
		return !p.Foreign
	case "G14":
		return p.counts()
	case "G13":
		return several && p.alone(failoverAllowance, fault.Having(fault.Stops)...)
	}
	return false
}
