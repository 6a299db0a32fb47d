package mutant

import "github.com/leasestorm/leasestorm/sim"

// words are mutants of what instances say.
var words = []Mutant{
	{
		Name: "gone-is-taken", By: SwapCauses,
		Story:  "An owner whose key is gone says that another has taken it.",
		Breaks: "G12", Seeds: 200,
		Edits: []Edit{{"internal/core/keeper.go", "			cause := CauseGone\n", "			cause := CauseTaken\n"}},
	},
	{
		Name: "given-back-is-lost-too", By: DoTwice,
		Story:  "A term that is given back is told lost as well.",
		Breaks: "G12", Seeds: 10,
		Edits: []Edit{{"internal/core/release.go",
			"Owner: l.heir.id})\n",
			"Owner: l.heir.id})\n	c.tell(Tell{Kind: TellLost, Cause: cause, ID: l.id, Fence: l.fence})\n"}},
	},
	{
		Name: "followers-say-nothing", By: SkipOne,
		Story:  "A member that follows does not tell whom.",
		Breaks: "E6", Seeds: 20, Scenario: sim.Scenario{System: sim.SystemElection},
		Edits: []Edit{{electionFile,
			"	m.publish(Event{Kind: LeaderChanged, Leader: instance, Fence: fence})",
			"	if instance == m.cfg.Instance {\n		m.publish(Event{Kind: LeaderChanged, Leader: instance, Fence: fence})\n	}"}},
	},
}
