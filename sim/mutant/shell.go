package mutant

import (
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

const (
	beliefFile = "internal/policy/belief.go"
	pollerFile = "internal/policy/poller.go"
	clientFile = "internal/redisstore/client.go"
)

// lateLoop are storms in which the loop of an instance, not its polls, comes up to a second late to everything.
func lateLoop(kinds ...fault.Kind) sim.Scenario {
	return sim.Scenario{
		Timings: sim.Timings{TTL: 30 * time.Second, Poll: 300 * time.Millisecond}, Faults: kinds,
		Virtual: sim.Virtual{Clock: virtual.Clock{Late: time.Second}},
	}
}

// hangingPolls are storms of polls that last longer than renewals are apart.
var hangingPolls = sim.Scenario{
	Timings: sim.Timings{TTL: 30 * time.Second, Poll: 5 * time.Second, PollTimeout: 20 * time.Second},
	Faults:  []fault.Kind{fault.BlackHole, fault.PollHang},
}

const whyFits = "the context of a poll ends with the window, but not all work looks at it"

// shell are mutants of the goroutines, clocks and connections around the rules.
var shell = []Mutant{
	{
		Name: "drain-before-the-poll-returned", By: DropComparison,
		Story:  "A lease that is to be given up is released while its poll still runs (kubernetes#139991).",
		Breaks: "G2", Seeds: 60, Scenario: sim.Scenario{Faults: []fault.Kind{
			fault.Leave, fault.Join, fault.Terminate, fault.SessionRemove, fault.PollSlow,
		}},
		Edits: []Edit{{pollerFile, "return Step{Yield: !p.running}", "return Step{Yield: true}"}},
	},
	{
		Name: "poll-at-the-last-moment", By: ShortenMargin,
		Story:  "A poll is begun while the lease is held, however little of its window is left.",
		Breaks: "G2", Seeds: 300, Why: whyFits, Scenario: hangingPolls,
		Edits: []Edit{{pollerFile, "case !believed, !c.Long && now+c.Timeout > until:", "case !believed:"}},
	},
	{
		Name: "stuck-work-keeps-its-lease", By: SkipOne,
		Story:  "The lease of a poll that never returns is renewed for ever: renewal follows the process, not the work (etcd#17470).",
		Breaks: "G8", Package: "lease/poll", Test: "TestStuckPollLosesItsLeaseUntilItReturns",
		Edits: []Edit{{pollerFile, "	p.stuck = true\n	return Step{Abandon: true}\n", "	p.stuck = true\n	return Step{}\n"}},
	},
	{
		Name: "belief-needs-the-loop", By: SkipOne,
		Story:  "That a renewal was not answered ends belief only when the loop comes to it.",
		Breaks: "G4", Seeds: 20, Scenario: lateLoop(fault.BlackHole, fault.Cut, fault.RepliesLost),
		Edits: []Edit{{beliefFile, "if early <= 0 {", "if true {"}},
	},
	{
		Name: "shell-ignores-failed-renewals", By: Forget,
		Story:  "The rules say that a renewal failed, and IsOwned goes on saying yes.",
		Breaks: "G4", Seeds: 20,
		Edits: []Edit{
			{beliefFile, "if early <= 0 {", "if true {"},
			{beliefFile, "core.TellUncertain, core.TellLost, core.TellReleased:\n\t\treturn Belief{}\n",
				"core.TellLost, core.TellReleased:\n\t\treturn Belief{}\n"},
		},
	},
	{
		Name: "valid-by-the-wall-clock", By: DropComparison,
		Story:  "IsOwned reads the wall clock only, which may be set back.",
		Breaks: "G1", Package: "lease", Test: "TestWindowEndsByWhicheverClockIsFirst",
		Edits: []Edit{{beliefFile, "return now.Mono < b.Mono && now", "return b.Mono != 0 && now"}},
	},
	{
		Name: "valid-by-the-monotonic-clock", By: DropComparison,
		Story:  "IsOwned reads the monotonic clock only, which stands still while the machine sleeps.",
		Breaks: "G4", Seeds: 30, Why: "a window that has closed shows before another instance takes the lease", Scenario: lateLoop(fault.Suspend),
		Edits: []Edit{{beliefFile, "now.Mono < b.Mono && now.Wall < b.Wall", "true && now.Mono < b.Mono"}},
	},
	{
		Name: "client-tries-again", By: DoTwice,
		Story:  "The Redis client repeats by itself what was not answered, under the stamp of the first attempt (go-redis' default).",
		Breaks: "G1", Package: "internal/redisstore", Test: "TestAtMostOnce",
		Edits: []Edit{{clientFile, "o.MaxRetries = -1   // a retry", "o.MaxRetries = 3   // a retry"}},
	},
	{
		Name: "get-then-del", By: Replace,
		Story:  "A release reads the owner and then deletes the key, in two commands (Sovereign).",
		Breaks: "G10", Package: "internal/redisstore", Test: "TestOpIsOneCommand",
		Edits: []Edit{{"internal/redisstore/do.go", "\treply, err := s.run(ctx, s.wire.Call(op))\n", `	if op.Kind == core.OpRelease {
		a := core.Answer{Seq: op.Seq, Epoch: op.Epoch, Results: make([]core.Result, len(op.Items))}
		for i, it := range op.Items {
			key := s.wire.opt.LeasePrefix + it.ID
			if holder, err := s.client.Get(ctx, key).Result(); err == nil && holder == op.Owner {
				s.client.Del(ctx, key)
			}
			a.Results[i].Outcome = core.OutReleased
		}
		return a
	}
	reply, err := s.run(ctx, s.wire.Call(op))
`}},
	},
	{
		Name: "late-poll-begins", By: DropComparison,
		Story:  "A poll whose goroutine gets its turn after the lease went begins all the same.",
		Breaks: "G4", Package: "lease/poll", Test: "TestPollThatComesTooLateDoesNotBegin",
		Edits: []Edit{{pollerFile, "bool { return believed && !cancelled }", "bool { return true }"}},
	},
	{
		Name: "poll-fits-by-half", By: ShortenMargin,
		Story:  "A poll is begun if half of its time-out fits into the window.",
		Breaks: "G2", Seeds: 300, Why: whyFits, Scenario: hangingPolls,
		Edits: []Edit{{pollerFile, "now+c.Timeout > until", "now+c.Timeout/2 > until"}},
	},
	{
		Name: "unanswered-a-fifth-longer", By: ChangeWait,
		Story:  "A renewal that is not answered ends belief a fifth later than at its deadline.",
		Breaks: "G4", Seeds: 20, Scenario: lateLoop(fault.BlackHole, fault.Cut, fault.RepliesLost),
		Edits: []Edit{{beliefFile, "early := b.Mono - op.Deadline\n", "early := b.Mono - op.Deadline - (op.Deadline-op.Sent)/5\n"}},
	},
	{
		Name: "lost-is-logged-as-released", By: SwapCauses,
		Story:  "The log calls what was lost released, and what was released lost.",
		Breaks: "G12", Seeds: 20,
		Edits: []Edit{{"internal/logentry/logentry.go", "	if int(k) < len(forms) {\n",
			"	switch k {\n	case core.TellLost:\n		return forms[core.TellReleased]\n" +
				"	case core.TellReleased:\n		return forms[core.TellLost]\n	}\n	if int(k) < len(forms) {\n"}},
	},
}
