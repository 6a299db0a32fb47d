package mutant

import "github.com/leasestorm/leasestorm/sim"

const electionMachine = "internal/core/election/machine.go"

// stormOfElections is what their mutants are hunted in.
var stormOfElections = sim.Scenario{System: sim.SystemElection}

// elections are mutants of a member's part in an election.
var elections = []Mutant{
	{
		Name: "wins-while-it-stops", By: DropComparison,
		Story:  "A member that wins in the moment of its stop leads.",
		Breaks: "E6", Package: "internal/core/election", Test: "TestStories", Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "	if m.phase != running {\n		m.eff.Drop = true // won", "	if false {\n		m.eff.Drop = true // won"}},
	},
	{
		Name: "follows-itself", By: DropComparison,
		Story:  "A member that finds its own ID in the leader key, and does not lead, follows itself.",
		Breaks: "E6", Package: "internal/core/election", Test: "TestStories", Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "	case instance == m.cfg.Instance:\n		instance, fence", "	case false:\n		instance, fence"}},
	},
	{
		Name: "cycle-a-fifth-long", By: ChangeWait,
		Story:  "A follower's cycle is a fifth longer than the settings say.",
		Breaks: "E6", Package: "internal/core/election", Test: "TestStories", Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "		m.wake = m.aligned(m.cfg.Interval)\n		if m.state != Follower {",
			"		m.wake = m.aligned(m.cfg.Interval * 6 / 5)\n		if m.state != Follower {"}},
	},
	{
		Name: "stands-a-ttl-late", By: ChangeWait,
		Story:  "A member stands for its first election a TTL later than it should.",
		Breaks: "E4", Seeds: 500, Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "core.Time(m.cfg.StartDelay)", "core.Time(m.cfg.StartDelay + m.cfg.TTL)"}},
	},
	{
		Name: "lost-is-released", By: SwapCauses,
		Story:  "A leadership that is lost is told to have been given back.",
		Breaks: "E6", Package: "internal/core/election", Test: "TestStories", Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "Fence: in.Fence, Reason: in.Reason, Leader: in.Owner}",
			`Fence: in.Fence, Reason: "released", Leader: in.Owner}`}},
	},
	{
		Name: "elected-twice", By: DoTwice,
		Story:  "A member says twice that it was elected.",
		Breaks: "E6", Seeds: 500, Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "	m.publish(Event{Kind: LeadershipAcquired, Fence: in.Fence, Leader: m.cfg.Instance})",
			"	m.publish(Event{Kind: LeadershipAcquired, Fence: in.Fence, Leader: m.cfg.Instance})\n" +
				"	m.publish(Event{Kind: LeadershipAcquired, Fence: in.Fence, Leader: m.cfg.Instance})"}},
	},
	{
		Name: "does-not-stand-again", By: Forget,
		Story:  "Who lost a leadership does not stand again before it starts anew.",
		Breaks: "E6", Seeds: 500, Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "	m.wake = m.aligned(m.cfg.Interval)\n	m.want()\n}", "	m.wake = m.aligned(m.cfg.Interval)\n}"}},
	},
	{
		Name: "no-cycle-follows-the-leader", By: SkipOne,
		Story:  "A follower's cycle reads nothing: it knows what its own attempts were told.",
		Breaks: "E6", Seeds: 500, Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "		m.look()\n		if m.vain {", "		if m.vain {"}},
	},
	{
		Name: "candidate-hears-no-look", By: SkipOne,
		Story:  "What a cycle read is left out where its answer comes while the member tries to be elected.",
		Breaks: "E6", Package: "internal/core/election", Test: "TestStories", Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "m.state == Candidate && l.Leader", "false && l.Leader"}},
	},
	{
		Name: "candidate-hears-of-a-free-key", By: DropComparison,
		Story:  "A member that tries to be elected asks again where a look shows the key free.",
		Breaks: "E7", Package: "internal/core/election", Test: "TestStories", Scenario: stormOfElections,
		Edits: []Edit{{electionMachine, "m.state == Candidate && l.Leader != \"\" && ", "m.state == Candidate && "}},
	},
}
