package mutant

import (
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

const (
	lifeLua  = luaDir + "life.lua"
	doFile   = "internal/redisstore/do.go"
	storeGo  = "internal/redisstore/store.go"
	storePkg = "internal/redisstore"
)

// behindSentinel is a storm in which Redis has replicas that the instances are told of.
func behindSentinel(replicas int, faults ...fault.Kind) sim.Scenario {
	return sim.Scenario{Topology: sim.TopologySentinel, Replicas: &replicas, Faults: faults}
}

// judged is s judged by those guarantees alone.
func judged(s sim.Scenario, by ...string) sim.Scenario {
	s.Criteria = by
	return s
}

// safely is s judged by the guarantees that say who may believe: what need not have been acknowledged breaks G10 in the first seed.
func safely(s sim.Scenario) sim.Scenario { return judged(s, check.Safety(check.SystemPolling)...) }

// replicated are mutants of the same rules that storms in virtual time catch.
var replicated = []Mutant{
	{
		Name: "wait-left-out", By: DropComparison,
		Story:  "What no replica has acknowledged counts.",
		Breaks: "G1", Seeds: 60, Scenario: safely(behindSentinel(2)),
		Edits: []Edit{{epochFile, "case a.Acked < op.Confirm:", "case false:"}},
	},
	{
		Name: "probe-left-out", By: DropComparison,
		Story:  "The epoch is not read again behind WAIT: a replica that attached itself meanwhile has acknowledged what an old master renewed.",
		Breaks: "G1", Seeds: 60, Scenario: safely(behindSentinel(2, fault.MasterCut, fault.ReplicaFlip)),
		Edits: []Edit{{epochFile, "case op.Probes() && a.After != op.Epoch:", "case false:"}},
	},
	{
		Name: "attachments-left-out", By: SkipOne,
		Story:  "A replica that attaches itself begins no epoch.",
		Breaks: "G1", Seeds: 60, Scenario: safely(behindSentinel(2, fault.MasterCut, fault.ReplicaFlip)),
		Edits: []Edit{{lifeLua, "full + partial ..", "'0' .."}},
	},
	{
		Name: "count-learnt", By: Replace,
		Story:  "As many replicas are waited for as the master has: one that has lost them to another master waits for none.",
		Breaks: "G1", Seeds: 60, Scenario: safely(behindSentinel(2)),
		Edits: []Edit{{
			epochLua, "local run = life(acks)",
			"acks = math.min(acks, tonumber(info('replication', 'connected_slaves:(%d+)')))\nlocal run = life(acks)",
		}},
	},
	{
		Name: "believed-while-wait-is-pending", By: SkipOne,
		Story:  "A renewal is believed as soon as the master has it, whatever becomes of its WAIT.",
		Breaks: "G1", Seeds: 100, Scenario: safely(behindSentinel(2)),
		Edits: []Edit{{"internal/core/terms.go",
			"case OpAcquire, OpRenew, OpReassert:\n\t\top.Confirm", "case OpAcquire, OpReassert:\n\t\top.Confirm"}},
	},
	{
		Name: "renewal-with-one-less", By: ShortenMargin,
		Story:  "A renewal counts with one acknowledgement less than a majority needs.",
		Breaks: "G1", Seeds: 100, Scenario: safely(behindSentinel(4)),
		Edits: []Edit{{"internal/core/terms.go", "op.Confirm = k.epoch.acks\n",
			"op.Confirm = k.epoch.acks\n\t\tif kind == OpRenew {\n\t\t\top.Confirm--\n\t\t}\n"}},
	},
	{
		Name: "acquisition-with-one-less", By: ShortenMargin,
		Story:  "An acquisition counts with one acknowledgement less than a majority needs.",
		Breaks: "G1", Seeds: 100, Scenario: safely(behindSentinel(4)),
		Edits: []Edit{{"internal/core/terms.go", "op.Confirm = k.epoch.acks\n",
			"op.Confirm = k.epoch.acks\n\t\tif kind == OpAcquire {\n\t\t\top.Confirm--\n\t\t}\n"}},
	},
	{
		Name: "deleted-is-renewed", By: SwapCauses,
		Story:  "A renewal that finds no key, where Redis has replicas, says that it renewed.",
		Breaks: "G10", Seeds: 100, Scenario: behindSentinel(2, fault.KeyDelete, fault.Failover, fault.ReplicaCut),
		Edits: []Edit{{renewFile, "elseif not holder then\n    codes[i - 1] = 'l'", "elseif not holder then\n    codes[i - 1] = 'r'"}},
	},
	{
		Name: "each-acquisition-waits", By: DropComparison,
		Story:  "Leases that run out one by one at a master without a majority each have a WAIT of their own.",
		Breaks: "G14", Seeds: 500, Scenario: behindSentinel(2, fault.MasterCut),
		Edits: []Edit{{"internal/core/core.go", "kind == OpAcquire && c.acknowledging()", "false"}},
	},
}

// replicas are mutants of the rules for a replicated Redis (docs/replicas.md), which tests on real servers show.
var replicas = []Mutant{
	{
		Name: "counts-without-acknowledgement", By: DropComparison,
		Story:  "What no replica has acknowledged counts.",
		Breaks: "G1", Package: storePkg, Test: "TestAcknowledged",
		Edits: []Edit{{epochFile, "case a.Acked < op.Confirm:", "case false:"}},
	},
	{
		Name: "a-majority-short-of-one", By: ShortenMargin,
		Story:  "One acknowledgement less than a majority needs counts.",
		Breaks: "G1", Package: storePkg, Test: "TestHigherNumberCounts",
		Edits: []Edit{{storeGo, "return (o.Replicas + 1) / 2", "return o.Replicas / 2"}},
	},
	{
		Name: "epoch-not-read-again", By: SkipOne,
		Story:  "A lease is had although a replica attached itself before it was acknowledged.",
		Breaks: "G1", Package: "internal/core", Test: "TestStories",
		Edits: []Edit{{epochFile, "case op.Probes() && a.After != op.Epoch:", "case false:"}},
	},
	{
		Name: "attachments-do-not-count", By: SkipOne,
		Story:  "A replica that attaches itself begins no epoch.",
		Breaks: "G1", Package: storePkg, Test: "TestAttachmentBeginsAnEpoch",
		Edits: []Edit{{lifeLua, "full + partial ..", "'0' .."}},
	},
	{
		Name: "full-copies-count-alone", By: SkipOne,
		Story:  "A replica that goes on where it was begins no epoch.",
		Breaks: "G1", Package: storePkg, Test: "TestAttachmentBeginsAnEpoch",
		Edits: []Edit{{lifeLua, "full + partial ..", "full .."}},
	},
	{
		Name: "failed-dials-are-counted", By: Forget,
		Story:  "The client's pool counts dials that fail, and after some answers with the last error without dialling (go-redis).",
		Breaks: "G9", Package: storePkg, Test: "TestEachAttemptDials",
		Edits: []Edit{{"internal/redisstore/dial.go",
			`return undialed{fmt.Errorf("no connection: %w", err)}, nil`, `return nil, fmt.Errorf("no connection: %w", err)`}},
	},
	{
		Name: "waits-on-another-connection", By: SkipOne,
		Story:  "WAIT goes over another connection than what it is to wait for.",
		Breaks: "G1", Package: storePkg, Test: "TestAcknowledged",
		Edits: []Edit{{doFile, "acked = pipe.Do(ctx,", "acked = s.client.Do(ctx,"}},
	},
	{
		Name: "the-lower-number-counts", By: SkipOne,
		Story:  "An instance that waits for fewer replicas makes the others do so.",
		Breaks: "G1", Package: storePkg, Test: "TestHigherNumberCounts",
		Edits: []Edit{{epochLua, "acks = math.max(acks, tonumber", "acks = math.max(acks, 0 * tonumber"}},
	},
	{
		Name: "renewals-need-nobody", By: SkipOne,
		Story:  "A renewal counts as soon as the master has it.",
		Breaks: "G1", Package: "internal/core", Test: "TestStories",
		Edits: []Edit{{"internal/core/terms.go",
			"case OpAcquire, OpRenew, OpReassert:\n\t\top.Confirm", "case OpAcquire, OpReassert:\n\t\top.Confirm"}},
	},
	{
		Name: "asked-of-what-is-unacknowledged", By: DropComparison,
		Story:  "An instance looks for whoever asks it for leases that it does not have, because too few replicas acknowledged them.",
		Breaks: "G14", Package: "internal/core", Test: "TestStories",
		Edits: []Edit{{"internal/core/notice.go", "c.cfg.Place && c.mayHave(n.IDs)", "c.cfg.Place"}},
	},
	{
		Name: "no-probe-after-refusal", By: SkipOne,
		Story:  "What was refused waits for its next attempt, whatever Redis becomes meanwhile.",
		Breaks: "G9", Package: "internal/core", Test: "TestStories",
		Edits: []Edit{{"internal/core/silence.go", "if c.epoch.acks > 0 && c.nextProbe == 0", "if false && c.nextProbe == 0"}},
	},
	{
		Name: "keeps-while-it-stops", By: DropComparison,
		Story:  "Who stops keeps a lease because an epoch ended.",
		Breaks: "G13", Package: "internal/core", Test: "TestStories",
		Edits: []Edit{{"internal/core/clock.go", "l.cause == CauseRebalance && !c.draining", "l.cause == CauseRebalance"}},
	},
}

// late are mutants of what the judge promises after a failover: nobody is made an owner too much, but too late.
var late = []Mutant{
	{
		Name: "nobody-asserts-after-an-attachment", By: SkipOne,
		Story:  "What an owner holds when an epoch ends is asserted at its next renewal, and not at once.",
		Breaks: "G9", Seeds: 60, Scenario: behindSentinel(2),
		Edits: []Edit{
			{"internal/core/clock.go", "c.doubt(l, CauseForgot, a.Epoch)\n\t\tc.requestRenew(l)\n", "c.doubt(l, CauseForgot, a.Epoch)\n"},
			{keeperFile, "\t\tif a.Stale {\n\t\t\tc.requestRenew(l)\n\t\t\tcontinue\n\t\t}", "\t\tif a.Stale {\n\t\t\tcontinue\n\t\t}"},
		},
	},
	{
		Name: "attachments-quarantine-twice-as-long", By: ChangeWait,
		Story:  "Where acknowledgements count, a quarantine lasts two TTLs.",
		Breaks: "G9", Seeds: 60, Scenario: behindSentinel(2),
		Edits: []Edit{{epochLua, "now + agreed)\n  local next", "now + agreed * (acks > 0 and 2 or 1))\n  local next"}},
	},
	{
		Name: "old-masters-connections-stay", By: Forget,
		Story:  "Connections to a master that was replaced are not closed when the switch is heard of.",
		Breaks: "G9", Seeds: 60, Scenario: judged(behindSentinel(2), "G9"), // G14 sees it sooner: what is refused is tried again
		Edits: []Edit{{"sim/virtual/sentinel.go", "\t\t\t\treturn\n\t\t\t}\n\t\t\tw.reset(n)\n", "\t\t\t\treturn\n\t\t\t}\n"}},
	},
}
