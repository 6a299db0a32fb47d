package check

import (
	"slices"

	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// system is a list of guarantees and the checkers that judge them.
type system struct {
	name       string
	guarantees []guarantee // in the order of their numbers
	safety     int         // this many of the first are never excused, and decide every run
	checkers   func(logs *nodelogs.Logs) []checker
}

// guarantee holds the constants of its verdict and a short form of its promise. docs/guarantees.md has the full text.
type guarantee struct {
	Verdict
	promise string
}

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
		{Verdict{ID: "G11", Spec: []string{"SC-003"}, Limit: InstancesNeeded, Unit: "instances at once"}, "scale"},
		{Verdict{ID: "G12", Spec: []string{"FR-019", "FR-020", "FR-021", "FR-022"}, Unit: "entries missing"}, "told"},
		{Verdict{ID: "G13", Spec: []string{"US1-3"}, Limit: FailoverAllowance.Milliseconds(), Unit: "ms"}, "clean stop"},
		{Verdict{ID: "G14", Spec: []string{}, Unit: "commands"}, "quiet"},
	},
	safety: 4,
	checkers: func(logs *nodelogs.Logs) []checker {
		owner, poller, fences := &g1{}, &g2{}, &g3{}
		return []checker{
			owner, poller, fences, &g4{}, &g5{}, &g6{}, &g7{}, &g8{},
			&g9{safety: []*hooks{&owner.hooks, &poller.hooks, &fences.hooks}},
			&g10{}, &g11{}, &g12{logs: logs}, &g13{}, &g14{},
		}
	},
}

// electionSystem is the system of leader election: E1 to E7 (docs/guarantees-systems.md). Leadership is one lease that every instance
// wants, and the leader's writes are its polls. So E1 to E5 reuse the rules for polling.
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
	checkers: func(*nodelogs.Logs) []checker {
		return []checker{&g1{}, &e2{}, &g3{}, &e4{}, &e5{}, &e6{}, &g14{}}
	},
}

// intentSystem is the system of intents and workers: I1 to I7 (docs/guarantees-systems.md).
var intentSystem = &system{
	name: SystemIntents,
	guarantees: []guarantee{
		{Verdict{ID: "I1", Spec: []string{"ADR-003 3.2"}, Unit: "pipelines too many"}, "one pipeline"},
		{Verdict{ID: "I2", Spec: []string{"ADR-003 3.3", "ADR-003 5.1"}, Unit: "starts too many or lost"}, "one session"},
		{Verdict{ID: "I3", Spec: []string{"ADR-003 3.2"}, Unit: "ms"}, "nothing is lost"},
		{Verdict{ID: "I4", Spec: []string{"ADR-003 6"}, Unit: "effects of refused requests"}, "refused, no effect"},
		{Verdict{ID: "I5", Spec: []string{"ADR-003 3.5", "ADR-003 5.2"}, Unit: "breaches of contract"}, "busy contract"},
		{Verdict{ID: "I6", Spec: []string{"ADR-003 5.3"}, Unit: "ms"}, "slots come back"},
		{Verdict{ID: "I7", Spec: []string{}, Unit: "commands"}, "quiet"},
	},
	safety: 2,
	checkers: func(*nodelogs.Logs) []checker {
		of := intentRule{book: newIntents()}
		return []checker{
			&i1{intentRule: of, newest: map[string]*pipeline{}}, &i2{intentRule: of}, &i3{intentRule: of},
			&i4{intentRule: of}, &i5{intentRule: of, used: map[string]int64{}, busy: map[string]int{}},
			&i6{intentRule: of, idle: map[idle]*spell{}}, &g14{},
		}
	},
}

// systems lists every system that this version can judge, in a fixed order.
var systems = []*system{polling, electionSystem, intentSystem}

// Systems returns the names of the systems that this version can judge, in a fixed order.
func Systems() (names []string) {
	for _, s := range systems {
		names = append(names, s.name)
	}
	return names
}

// systemOf returns the system of that name. An empty or unknown name, as in reports of older versions, means polling.
func systemOf(name string) *system {
	for _, s := range systems {
		if s.name == name {
			return s
		}
	}
	return polling
}

// IDs returns the IDs of all guarantees of a system, in order.
func IDs(system string) (ids []string) {
	for _, g := range systemOf(system).guarantees {
		ids = append(ids, g.ID)
	}
	return ids
}

// Safety returns the IDs of the guarantees of a system that are never excused. They decide every run.
func Safety(system string) []string { return IDs(system)[:systemOf(system).safety] }

// Judges reports whether the guarantee can be judged in a run with these
// parameters.
func (p Params) Judges(id string) bool {
	return !p.replicated() || p.Followed || slices.Contains(Safety(p.System), id)
}

// Promise returns the short form of what a guarantee promises, "" for an unknown ID.
func Promise(id string) string {
	for _, s := range systems {
		for _, g := range s.guarantees {
			if g.ID == id {
				return g.promise
			}
		}
	}
	return ""
}

// Constants returns the constants of a guarantee's verdict: ID, unit, limit.
func Constants(id string) Verdict {
	for _, s := range systems {
		for _, g := range s.guarantees {
			if g.ID == id {
				return g.Verdict
			}
		}
	}
	return Verdict{ID: id}
}

// InstancesNeeded is the number of instances at once that G11 requires.
const InstancesNeeded = 10

// Least reports whether the guarantee's limit is a minimum, not a maximum.
func Least(id string) bool { return id == "G11" }
