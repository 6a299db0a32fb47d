package mutant

import "github.com/leasestorm/leasestorm/sim"

const (
	intentMachine = "internal/core/intent/machine.go"
	intentLife    = "internal/core/intent/life.go"
	sessionTerms  = "internal/policy/terms.go"
	intentLua     = "lease/intent/store/lua/"
)

// stormOfIntents is what their mutants are hunted in.
var stormOfIntents = sim.Scenario{System: sim.SystemIntents}

// intentsBehindSentinel is one in which Redis has replicas that the workers are told of.
func intentsBehindSentinel() sim.Scenario {
	s := behindSentinel(2)
	s.System = sim.SystemIntents
	return s
}

// intents are mutants of the system of intents and workers.
var intents = []Mutant{
	{
		Name: "publish-apart", By: Replace,
		Story:  "A start is put on the bus by a command of its own, after its record and its key.",
		Breaks: "I3", Seeds: 40, Scenario: stormOfIntents,
		Edits: []Edit{
			{intentLua + "put.lua", "start(id, ARGV[6], ARGV[7], ARGV[8])", "''"},
			{"lease/intent/store/sessions.go", "	return putReply(reply)\n}\n\nfunc putArgs", `	id, known, err := putReply(reply)
	if err == nil && !known {
		err = s.client.XAdd(ctx, &redis.XAddArgs{Stream: s.bus, Values: []any{
			"type", "start", "session", id, "service", session.ServiceRef, "profile", session.Profile, "start", session.StartMs,
		}}).Err()
	}
	return id, known, err
}

func putArgs`},
		},
	},
	{
		Name: "no-dedup-lease", By: SkipOne,
		Story:  "A session takes a tuner slot, and no lease on its service.",
		Breaks: "I1", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{
			{intentMachine, "	m.do(Effect{Kind: Acquire, Session: s.entry.Session, Lease: ServiceLease(s.entry.Service)})", "	m.seek(s)"},
			{intentLife, "min(s.service.until, s.tuner.until)", "s.tuner.until"},
			{sessionTerms, "owned && placed && a.Valid() && b.Valid()", "(owned || true) && placed && b.Valid()"},
		},
	},
	{
		Name: "state-without-fence", By: DropComparison,
		Story:  "A worker writes a session's state whoever has written it since.",
		Breaks: "I3", Seeds: 60, Scenario: stormOfIntents,
		Edits: []Edit{{intentLua + "write.lua", "if known > tonumber(ARGV[7]) then return 'O' end\n", ""}},
	},
	{
		Name: "every-worker-deletes-all-leases", By: DropComparison,
		Story:  "A worker that starts deletes all leases, whoever holds them: two that each take themselves for the only one.",
		Breaks: "I5", Seeds: 20, Why: "a lease that is lost without a fault shows before two pipelines meet", Scenario: stormOfIntents,
		Edits: []Edit{
			{"internal/membership/membership.go", "	if m.SingleWriter {\n", "	if true {\n"},
			{"internal/membership/membership.go", "	return life, max(0, life-silent)\n", "	return life, 0\n"},
		},
	},
	{
		Name: "key-not-canonical", By: Replace,
		Story:  "An idempotency key is made of the reference as it was sent, with or without colons at its end.",
		Breaks: "I2", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{"lease/intent/key.go", `s.ServiceRef = strings.TrimRight(s.ServiceRef, ":")`, `_ = strings.TrimRight`}},
	},
	{
		Name: "release-before-the-pipeline-returned", By: SkipOne,
		Story:  "A pipeline is asked to end, and its leases are given back without waiting for that.",
		Breaks: "I1", Package: "internal/core/intent", Test: "TestAnyOrder", Scenario: stormOfIntents,
		Edits: []Edit{{
			"internal/core/intent/life.go", "	m.do(Effect{Kind: Halt, Session: s.entry.Session})\n}",
			"	m.do(Effect{Kind: Halt, Session: s.entry.Session})\n	m.giveBack(s)\n}",
		}},
	},
	{
		Name: "worker-that-stops-takes-starts", By: DropComparison,
		Story:  "A worker that waits for its pipelines to end goes on taking starts off the bus, and begins none.",
		Breaks: "I3", Package: "internal/core/intent", Test: "TestDrainEnds", Scenario: stormOfIntents,
		Edits: []Edit{{intentMachine, "return !m.draining }", "return true }"}},
	},
	{
		Name: "settled-starts-are-told", By: Forget,
		Story:  "A start whose session runs or has ended, and that is on the bus again, is given to workers for ever.",
		Breaks: "I3", Package: "lease/intent/store", Test: "TestSweepIsDoneWithWhatIsSettled", Scenario: stormOfIntents,
		Edits: []Edit{{intentLua + "sweep.lua", "settled[r[3]]", "false"}},
	},
	{
		Name: "key-life-in-seconds", By: ChangeWait,
		Story:  "An idempotency key is given as many milliseconds as it should have seconds.",
		Breaks: "I2", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{intentLua + "put.lua", "'PX', ARGV[10])", "'PX', math.floor(ARGV[10] / 1000))"}},
	},
	{
		Name: "key-ends-while-it-runs", By: SkipOne,
		Story:  "The key of a session that runs is left to expire.",
		Breaks: "I2", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{intentLua + "write.lua", "redis.call('PERSIST', prefix .. 'idem:' .. now[3])",
			"redis.call('EXISTS', prefix .. 'idem:' .. now[3])"}},
	},
	{
		Name: "second-delivery-is-poison", By: ShortenMargin,
		Story:  "A start that is delivered a second time is given up, although its first worker only died.",
		Breaks: "I5", Seeds: 300, Scenario: stormOfIntents,
		Edits: []Edit{{intentMachine, "case m.cfg.MaxTries > 0 && e.Tries > m.cfg.MaxTries:", "case m.cfg.MaxTries > 0 && e.Tries > 1:"}},
	},
	{
		Name: "releases-the-service-only", By: SkipOne,
		Story:  "A session that ends gives its service back and goes on renewing its tuner slot.",
		Breaks: "I6", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{sessionTerms, "	all := t.held\n", "	all := t.held[:min(1, len(t.held))]\n"}},
	},
	{
		Name: "waits-for-what-it-has", By: Forget,
		Story:  "Who was given a lease goes on waiting for it, and the process takes it again when it is free.",
		Breaks: "I6", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{"internal/policy/waiters.go", "	q.callers, q.refused = rest, false\n", "	q.refused = false\n"}},
	},
	{
		Name: "launches-twice", By: DoTwice,
		Story:  "A session whose start was written launches its pipeline twice.",
		Breaks: "I1", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{intentLife, "	default:\n		m.launch(s)\n	}", "	default:\n		m.launch(s)\n		m.launch(s)\n	}"}},
	},
	{
		Name: "loss-is-forgotten", By: Forget,
		Story:  "A session goes on as if no lease of it had been lost.",
		Breaks: "I1", Package: "internal/core/intent", Test: "TestAnyOrder", Scenario: stormOfIntents,
		Edits: []Edit{{intentLife, "			s.lost = true\n", "			s.lost = false\n"}},
	},
	{
		Name: "busy-is-no-slot", By: SwapCauses,
		Story:  "A start whose service is in use is told that no tuner slot is free.",
		Breaks: "I5", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{intentMachine, `m.end(s, LeaseBusy, "the service is in use")`, `m.end(s, NoTuner, "the service is in use")`}},
	},
	{
		Name: "pipelines-without-acknowledgement", By: DropComparison,
		Story:  "A pipeline runs under leases that no replica has acknowledged.",
		Breaks: "I1", Seeds: 60, Scenario: intentsBehindSentinel(),
		Edits: []Edit{{epochFile, "case a.Acked < op.Confirm:", "case false:"}},
	},
	{
		Name: "what-a-copy-says-runs", By: SkipOne,
		Story:  "A worker does not look which of the sessions that run there, by the records of another master, it has.",
		Breaks: "I3", Seeds: 280, Scenario: judged(intentsBehindSentinel(), "I3"), // I6 sees it sooner: what runs so is not given back
		Edits: []Edit{{"internal/membership/membership.go", "	if server != m.server || more && m.more {\n", "	if false {\n"}},
	},
	{
		Name: "what-a-late-write-says-runs", By: SkipOne,
		Story:  "A worker does not look which of the sessions that run there by the records it has, where they are more than it has.",
		Breaks: "I3", Package: "lease/intent/worker", Test: "TestRecordOfWhatIsNotInHand", Scenario: stormOfIntents,
		Edits: []Edit{{"internal/membership/membership.go", "more && m.more", "false"}},
	},
	{
		Name: "busy-service-is-taken", By: DropComparison,
		Story:  "A service that another holds counts as held for this very session, for as long as it waits.",
		Breaks: "I5", Seeds: 10, Scenario: stormOfIntents,
		Edits: []Edit{{intentMachine, `again := e.Owner != "" && (e.Owner == s.entry.From || e.Owner == s.entry.Owner)`,
			`again := e.Owner != ""`}},
	},
}
