package mutant

import (
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

const (
	coreFile     = "internal/core/core.go"
	electionFile = "internal/core/election/machine.go"
	keeperFile   = "internal/core/keeper.go"
	termsFile    = "internal/core/terms.go"
	epochFile    = "internal/core/terms_epoch.go"
	clockFile    = "internal/core/terms_clock.go"
	fleetFile    = "internal/core/fleet.go"
	sessionsFile = "internal/core/sessions.go"
	registryFile = "internal/core/registry.go"
)

// whyClock: what the judge knows of a window is when its owner said that it would end. A clock that is wrong stretches the
// window afterwards, which shows in what is done after that end.
const whyClock = "the judge knows a window by the end its owner told; a clock that changes later shows as polls behind it"

// rules are mutants of internal/core.
var rules = []Mutant{
	{
		Name: "trust-from-answer", By: Replace,
		Story:  "Trust is counted from the answer instead of the send (client-go's leader election).",
		Breaks: "G1", Seeds: 20,
		Edits: []Edit{
			{termsFile, "return op.Sent + Time(k.cfg.TTL-k.margin)", "return k.now.Mono + Time(k.cfg.TTL-k.margin)"},
		},
	},
	{
		Name: "no-margin", By: ShortenMargin,
		Story:  "Trust lasts a whole TTL: nothing is left for clocks that run at different rates.",
		Breaks: "G1", Seeds: 100,
		Edits: []Edit{
			{termsFile, "op.Sent + Time(k.cfg.TTL-k.margin)", "op.Sent + Time(k.cfg.TTL)"},
		},
	},
	{
		Name: "margin-a-tenth-short", By: ShortenMargin,
		Story:  "A tenth of the margin is missing: enough for all clocks but those at the edge of what is promised.",
		Breaks: "G1", Seeds: 500,
		Edits: []Edit{
			{termsFile, "op.Sent + Time(k.cfg.TTL-k.margin)", "op.Sent + Time(k.cfg.TTL-k.margin*9/10)"},
		},
	},
	{
		Name: "belief-until-told", By: Replace,
		Story:  "An owner believes until Redis says otherwise (redislock, Redisson: no local deadline).",
		Breaks: "G1", Seeds: 20,
		Edits: []Edit{
			{termsFile, "op.Sent + Time(k.cfg.TTL-k.margin)", "op.Sent + Time(100*k.cfg.TTL)"},
		},
	},
	{
		Name: "timeout-means-acquired", By: Replace,
		Story:  "An acquisition that was not answered is taken as granted.",
		Breaks: "G1", Seeds: 50,
		Edits: []Edit{{coreFile, "l.unanswered = true\n" +
			"\t\tif a.Failure == FailUnknown || a.Failure == FailUncounted {\n\t\t\tc.traces.leave(l.id)\n\t\t}\n" +
			"\t\tc.refuse(l, cause, \"\", max(c.pause(c.paces[OpAcquire].failed), c.cfg.MaxProbe), a.Text)",
			"c.answered(l)\n\t\tc.granted(l, in, &Result{Outcome: OutGranted, Fence: c.epoch.fence + 1})"}},
	},
	{
		Name: "failed-renewal-ignored", By: DropComparison,
		Story:  "A renewal that fails, or is not answered, changes nothing before the window ends.",
		Breaks: "G4", Package: "lease", Test: "TestFailedRenewalStopsBeliefAtOnceAndSuccessRestoresTheSameTerm",
		Edits: []Edit{{clockFile, "if t.phase != owned {\n\t\treturn false, false", "if true {\n\t\treturn false, false"}},
	},
	{
		Name: "one-failure-ends-the-renewer", By: Forget,
		Story:  "A renewal that failed is the last (Redisson's watchdog, redisson#775, #3194).",
		Breaks: "G9", Seeds: 50, Scenario: sim.Scenario{Faults: []fault.Kind{fault.RedisFreeze, fault.RedisReadOnly}},
		Edits: []Edit{
			{keeperFile, "case l.op == 0:\n\t\t\tc.requestRenew(l)", "case l.op == 0 && !l.uncertain:\n\t\t\tc.requestRenew(l)"},
			{"internal/core/silence.go", "if (l.uncertain || l.reassert) && l.op == 0 {", "if l.reassert && l.op == 0 {"},
			{coreFile, "c.doubt(l, cause, a.Text)\n\t\tif !c.silence.on {", "c.doubt(l, cause, a.Text)\n\t\tif false {"},
		},
	},
	{
		Name: "old-master-believed", By: DropComparison,
		Story:  "An old master that comes back is believed, as it was before its successor granted anything.",
		Breaks: "G1", Package: "sim/virtual", Test: "TestFailoverThatIsUndone",
		Edits: []Edit{{epochFile, "e.past[a.Epoch]; past {", "e.past[a.Epoch]; past && false {"}},
	},
	{
		Name: "longer-ttl-joins", By: DropComparison,
		Story:  "An instance joins a group whose quarantine is shorter than its TTL.",
		Breaks: "G1", Package: "lease", Test: "TestLongerTTLIsFoundOutWithTheFirstAnswer",
		Edits: []Edit{{epochFile, "return group > 0 && group <", "return false && group <"}},
	},
	{
		Name: "quota-off", By: Replace,
		Story:  "Sessions go to whoever ranks them highest, however many it owns: plain rendezvous hashing.",
		Breaks: "G6", Seeds: 20,
		Edits: []Edit{{"internal/core/place.go", "p.quota[i] = q\n\t\tif k < r {", "p.quota[i] = int32(m)\n\t\tif k < 0*r {"}},
	},
	{
		Name: "wall-clock", By: Replace,
		Story: "Time is read from the wall clock alone: a window moves with every step of it (rueidislock sends wall-clock " +
			"expiries).",
		Breaks: "G1", Seeds: 50,
		Edits: []Edit{
			{"internal/core/clock.go", "if step == 0 {\n\t\treturn\n\t}\n",
				"if step != 0 {\n\t\tfor _, l := range c.held {\n\t\t\tl.until -= Time(step)\n" +
					"\t\t\tc.armLease(l, max(l.until, c.now.Mono))\n\t\t}\n\t}\n\tif true {\n\t\treturn\n\t}\n"},
			{coreFile, "t.At = c.now.Mono", "t.At = c.now.Mono\n\tif t.Until != 0 {\n\t\tt.Until += Time(100 * c.cfg.TTL)\n\t}"},
		},
	},
	{
		Name: "clock-stops-in-suspension", By: Replace,
		Story:  "Only the monotonic clock is read, which stands still while the machine sleeps (Go's, on most systems).",
		Breaks: "G4", Seeds: 20, Why: whyClock, Scenario: sim.Scenario{Faults: []fault.Kind{fault.Suspend}},
		Edits: []Edit{
			{clockFile, "!c.known || step <= k.margin && step >= -k.margin {", "true {"},
			{coreFile, "t.At = c.now.Mono", "t.At = c.now.Mono\n\tif t.UntilWall != 0 {\n\t\tt.UntilWall += 100 * c.cfg.TTL\n\t}"},
		},
	},
	{
		Name: "late-renewal-outlives-release", By: DropComparison,
		Story:  "The answer of a renewal counts after the term was given back (redisson#7272).",
		Breaks: "G10", Seeds: 200, Why: "a term that goes on after its last word shows before another takes it",
		Edits: []Edit{{keeperFile, "func (c *Core) renewAnswered(in *inflight, a *Answer) {\n" +
			"\tfor i, l := range in.leases {\n\t\tif !c.settles(&in.op, &l.term) {\n",
			"func (c *Core) renewAnswered(in *inflight, a *Answer) {\n\tfor i, l := range in.leases {\n\t\tif !c.settles(&in.op, &l.term) {\n" +
				"\t\t\tif !a.Stale && a.result(i).Outcome == OutRenewed {\n\t\t\t\tc.renewed(l, in)\n\t\t\t}\n"}},
	},
	{
		Name: "extends-unheard", By: DropComparison,
		Story: "After an attempt without answer it goes on extending, with no read in between: when only replies are lost, a lease " +
			"is extended for as long as that lasts by an owner that does not work.",
		Breaks: "G5", Package: "internal/core", Test: "TestStormUnheardOwnerLetsGo",
		Edits: []Edit{
			{coreFile, "case c.silence.on:\n\t\tc.holdBack()", "case false:\n\t\tc.holdBack()"},
			{keeperFile, "case c.silence.on:\n\t\t\tc.doubt(", "case false:\n\t\t\tc.doubt("},
		},
	},
	{
		Name: "only-the-next-waits", By: ChangeWait,
		Story:  "A lease that expires is waited for by the next in rank alone.",
		Breaks: "G5", Package: "internal/core", Test: "TestStormSuccessorDiesToo",
		Edits: []Edit{{fleetFile, "return int64(min(k, f.k.cfg.StaggerMax)) * f.k.cfg.Stagger", "return f.k.cfg.TTL + int64(k)"}},
	},
	{
		Name: "timeout-means-not-acquired", By: Replace,
		Story: "An acquisition that was not answered is taken as refused, and tried again when the key would have expired, " +
			"whatever a look shows.",
		Breaks: "G8", Package: "internal/core", Test: "TestStormGrantThatWasNotHeard",
		Edits: []Edit{{coreFile, `c.refuse(l, cause, "", max(c.pause(c.paces[OpAcquire].failed), c.cfg.MaxProbe), a.Text)`,
			`c.refuse(l, cause, "", c.cfg.TTL, a.Text)`},
			{sessionsFile, "l.place && o != 0", "l.place"}},
	},
	{
		Name: "gives-up-unasked", By: DropComparison,
		Story:  "An instance releases what it owns above its quota although nobody who could take it has asked.",
		Breaks: "G6", Package: "internal/core", Test: "TestStormNobodyGivesUnasked",
		Edits: []Edit{{sessionsFile, "	if len(f.asks) == 0 {\n		return\n", `	if len(f.asks) == 0 {
		for _, l := range append([]*lease(nil), c.held...) {
			if i := f.sessions.find(l.id); i >= 0 && !l.yielding && f.targetOf(i) > 0 {
				c.yield(l, c.registry.nodes[f.targetOf(i)].id, CauseRebalance)
			}
		}
		return
`}},
	},
	{
		Name: "suspect-rule-off", By: DropComparison,
		Story: "An instance that has not refreshed its heartbeat when it should long have still counts: its leases have no heir " +
			"when they expire.",
		Breaks: "G5", Package: "internal/core", Test: "TestStormTakeoverAtTheExpiry",
		Edits: []Edit{{registryFile, "return n.alive && !n.suspect", "return n.alive"}},
	},
	{
		Name: "late-reassertion-counts", By: DropComparison,
		Story:  "A term is asserted anew after Redis lost its data although its own window had closed before that.",
		Breaks: "G3", Seeds: 300, Scenario: sim.Scenario{Faults: []fault.Kind{
			fault.Crash, fault.Cut, fault.BlackHole, fault.Join, fault.RedisWipe, fault.RedisFlush, fault.RedisOutage,
		}},
		Edits: []Edit{{keeperFile, "c.lost(l, CauseExpired, \"\")",
			"if c.silence.on {\n\t\t\tc.armLease(l, c.now.Mono+Time(c.cfg.MaxProbe))\n\t\t\treturn\n\t\t}\n\t\tc.lost(l, CauseExpired, \"\")"}},
	},
	{
		Name: "fence-not-carried", By: Forget,
		Story: "An acquisition does not carry the highest fence its instance has seen: what is left is Redis' clock, which is " +
			"enough only as long as the clocks of successive masters differ by less than a TTL.",
		Breaks: "G3", Package: "internal/core", Test: "TestStormFenceIsCarried",
		Edits: []Edit{{termsFile, "TTL: k.cfg.TTL, Fence: k.epoch.fence,", "TTL: k.cfg.TTL,"}},
	},
	{
		Name: "refused-at-once", By: ChangeWait,
		Story:  "What Redis refuses is asked again at once, however often it was refused: at the speed of the network.",
		Breaks: "G14", Seeds: 50, Scenario: sim.Scenario{Faults: []fault.Kind{fault.RedisReadOnly, fault.RedisMemory}},
		Edits: []Edit{{"internal/core/pace.go", "if n < 2 {", "if n < 1_000_000 {"}},
	},
	{
		Name: "leaves-its-heartbeat", By: SkipOne,
		Story:  "Who stops says so to nobody: its heartbeat lives on, and it counts for a TTL.",
		Breaks: "G13", Seeds: 100,
		Edits: []Edit{{coreFile, "own.leave = false\n\t\tc.send(OpLeave, nil, nil)\n", "own.leave = false\n"}},
	},
	{
		Name: "leaves-once", By: SkipOne,
		Story:  "Who stops says so once: where that is lost on the way, its heartbeat lives on, and it counts for a TTL.",
		Breaks: "G13", Package: "internal/core", Test: "TestStories",
		Edits: []Edit{{registryFile, "m.leave = m.leave || m.leaving && now < m.ends", ""}},
	},
	{
		Name: "keeps-what-is-gone", By: SkipOne,
		Story:  "The lease of a session that was removed or paused is kept, and polled, until its owner stops.",
		Breaks: "G8", Seeds: 100,
		Edits: []Edit{{sessionsFile, "func (c *Core) dropUnwanted() {\n",
			"func (c *Core) dropUnwanted() {\n\tif len(c.held) > 0 {\n\t\treturn\n\t}\n"}},
	},
	{
		Name: "drains-the-first-only", By: SkipOne,
		Story:  "Who stops gives back one lease, and the others when their windows end.",
		Breaks: "G13", Seeds: 100,
		Edits: []Edit{{coreFile, "\t\tif !l.yielding {\n\t\t\tc.yield(l, \"\", CauseDrain)\n\t\t}\n",
			"\t\tif !l.yielding {\n\t\t\tc.yield(l, \"\", CauseDrain)\n\t\t\tbreak\n\t\t}\n"}},
	},
	{
		Name: "no-expiry-means-now", By: DropComparison,
		Story:  "A foreign hand's lease key without an expiry is taken for one that expires at once: 12,000 commands a second.",
		Breaks: "G14", Package: "sim/virtual", Test: "TestForeignHandsKeyIsNotAskedAboutForEver",
		Edits: []Edit{{termsFile, "if pttl <= 0 {", "if pttl < 0 {"}},
	},
	{
		Name: "heartbeats-one-by-one", By: ChangeWait,
		Story:  "Each instance reads every other's heartbeat, as it comes due, with a command of its own.",
		Breaks: "G14", Package: "sim/virtual", Test: "TestHeartbeatsOfManyAreReadTogether",
		Edits: []Edit{{registryFile, "soon := r.k.now.Mono + Time(r.k.cfg.Lead+r.k.cfg.Renew)", "soon := r.k.now.Mono"}},
	},
	{
		Name:   "followers-have-no-doubts",
		Story:  "A follower that sees the leader key gone waits until its lease would have ended before it asks Redis for its data.",
		Breaks: "E4", Seeds: 1000, By: SkipOne,
		Scenario: sim.Scenario{System: sim.SystemElection, Faults: []fault.Kind{fault.CheckSend, fault.RedisFlush}},
		Edits:    []Edit{{electionFile, "\t\tm.eff.Doubt = true\n", ""}},
	},
}
