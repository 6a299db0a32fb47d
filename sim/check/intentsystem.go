package check

import "github.com/leasestorm/leasestorm/sim/fault"

// intentSystem is the system of intents and workers: I1 to I7 (docs/guarantees.md).
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
	checkers: func(*Logs) []checker {
		book := newIntents()
		return []checker{
			&i1{book: book}, &i2{book: book}, &i3{book: book}, &i4{book: book}, &i5{book: book}, &i6{book: book}, &g14{},
		}
	},
	exercises: intentsExercise,
}

func intentsExercise(p Params, id string) bool {
	switch id {
	case "I2", "I4", "I5":
		return p.Tap
	case "I7":
		return p.counts()
	case "I6":
		return p.Tap && p.alone(p.TTL+failoverAllowance, fault.Crash)
	}
	return true
}
