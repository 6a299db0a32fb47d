package mutant

const (
	beliefFile = "internal/policy/belief.go"
	pollFile   = "lease/poll/manager.go"
	clientFile = "lease/redisstore/client.go"
)

// shell are mutants of the goroutines, clocks and connections around the rules.
var shell = []Mutant{
	{
		Name: "drain-before-the-poll-returned", By: DropComparison,
		Story:  "A lease that is to be given up is released while its poll still runs (kubernetes#139991).",
		Breaks: "G2", Package: "lease/poll", Test: "TestStopLetsPollsEndThenCancels",
		Edits: []Edit{{pollFile, "p.yielding = true\n\t\tif p.run == nil {", "p.yielding = true\n\t\tif true {"}},
	},
	{
		Name: "poll-at-the-last-moment", By: ShortenMargin,
		Story:  "A poll is begun while the lease is held, however little of its window is left.",
		Breaks: "G4", Package: "lease/poll", Test: "TestPollBeginsOnlyIfItFitsTheWindow",
		Edits: []Edit{{pollFile, "case !m.cfg.LongPolls && now.Add(m.cfg.Timeout).After(p.hold.Until()):", "case false:"}},
	},
	{
		Name: "stuck-work-keeps-its-lease", By: SkipOne,
		Story:  "The lease of a poll that never returns is renewed for ever: renewal follows the process, not the work (etcd#17470).",
		Breaks: "G8", Package: "lease/poll", Test: "TestStuckPollLosesItsLeaseUntilItReturns",
		Edits: []Edit{{pollFile, "\tp.run.hold.Abandon()\n", ""}},
	},
	{
		Name: "belief-needs-the-loop", By: SkipOne,
		Story:  "That a renewal was not answered ends belief only when the loop comes to it.",
		Breaks: "G4", Package: "lease", Test: "TestUnansweredRenewalEndsBeliefWithoutTheLoop",
		Edits: []Edit{{beliefFile, "if early <= 0 {", "if true {"}},
	},
	{
		Name: "shell-ignores-failed-renewals", By: Forget,
		Story:  "The rules say that a renewal failed, and IsOwned goes on saying yes.",
		Breaks: "G4", Package: "lease", Test: "TestFailedRenewalStopsBeliefAtOnceAndSuccessRestoresTheSameTerm",
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
		Breaks: "G1", Package: "lease", Test: "TestWindowEndsByWhicheverClockIsFirst",
		Edits: []Edit{{beliefFile, "< b.Mono && now.Wall < b.Wall }", "< b.Mono }"}},
	},
	{
		Name: "client-tries-again", By: DoTwice,
		Story:  "The Redis client repeats by itself what was not answered, under the stamp of the first attempt (go-redis' default).",
		Breaks: "G1", Package: "lease/redisstore", Test: "TestAtMostOnce",
		Edits: []Edit{{clientFile, "o.MaxRetries = -1   // a retry", "o.MaxRetries = 3   // a retry"}},
	},
	{
		Name: "get-then-del", By: Replace,
		Story:  "A release reads the owner and then deletes the key, in two commands (Sovereign).",
		Breaks: "G10", Package: "lease/redisstore", Test: "TestOpIsOneCommand",
		Edits: []Edit{{"lease/redisstore/do.go", "\treply, err := s.run(ctx, s.wire.Call(op))\n", `	if op.Kind == core.OpRelease {
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
		Edits: []Edit{{pollFile, "r.unbegun = ctx.Err() != nil || !r.hold.Valid(); r.unbegun", "r.unbegun = false; r.unbegun"}},
	},
	{
		Name: "poll-fits-by-half", By: ShortenMargin,
		Story:  "A poll is begun if half of its time-out fits into the window.",
		Breaks: "G4", Package: "lease/poll", Test: "TestPollBeginsOnlyIfItFitsTheWindow",
		Edits: []Edit{{pollFile, "now.Add(m.cfg.Timeout).After(p.hold.Until())", "now.Add(m.cfg.Timeout / 2).After(p.hold.Until())"}},
	},
	{
		Name: "unanswered-a-fifth-longer", By: ChangeWait,
		Story:  "A renewal that is not answered ends belief a fifth later than at its deadline.",
		Breaks: "G4", Package: "lease", Test: "TestUnansweredRenewalEndsBeliefWithoutTheLoop",
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
