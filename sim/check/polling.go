package check

// polling is the system of polling sessions: G1 to G14 (docs/guarantees.md).
var polling = &system{
	guarantees: []Verdict{
		{ID: "G1", Spec: []string{"SC-001", "FR-009", "FR-010", "FR-012"}, Unit: "ms of overlap"},
		{ID: "G2", Spec: []string{"SC-001", "US3"}, Unit: "duplicate polls"},
		{ID: "G3", Spec: []string{}, Unit: "fences that fell"},
		{ID: "G4", Spec: []string{"FR-012", "FR-016"}, Unit: "polls without trust"},
		{ID: "G5", Spec: []string{"SC-002", "FR-017", "US2"}, Unit: "ms"},
		{ID: "G6", Spec: []string{"SC-004", "US4"}, Limit: 1, Unit: "leases off ideal"},
		{ID: "G7", Spec: []string{"US4-2"}, Unit: "needless moves"},
		{ID: "G8", Spec: []string{"SC-006"}, Unit: "ms unpolled"},
		{ID: "G9", Spec: []string{"SC-005"}, Unit: "ms"},
		{ID: "G10", Spec: []string{"FR-001", "FR-002", "FR-003"}, Unit: "foreign changes"},
		{ID: "G11", Spec: []string{"SC-003"}, Limit: instancesNeeded, Unit: "instances at once"},
		{ID: "G12", Spec: []string{"FR-019", "FR-020", "FR-021", "FR-022"}, Unit: "entries missing"},
		{ID: "G13", Spec: []string{"US1-3"}, Limit: failoverAllowance.Milliseconds(), Unit: "ms"},
		{ID: "G14", Spec: []string{}, Unit: "commands"},
	},
	safety: 4,
	checkers: func(logs *Logs) []checker {
		fences := &g3{}
		owner, poller := &g1{fences: fences}, &g2{}
		return []checker{
			owner, poller, fences, &g4{}, &g5{}, &g6{}, &g7{}, &g8{},
			&g9{safety: []*hooks{&owner.hooks, &poller.hooks, &fences.hooks}},
			&g10{}, &g11{}, &g12{logs: logs}, &g13{}, &g14{needs: pollingNeeds},
		}
	},
	exercises: pollingExercises,
}

// instancesNeeded is how many instances at once G11 wants to see.
const instancesNeeded = 10
