package mutant

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// behindSentinel is a storm on a Redis with replicas that the instances know, judged by the safety guarantees.
func behindSentinel(replicas int, faults ...fault.Kind) sim.Scenario {
	return judgedBy(sim.Scenario{Topology: sim.TopologySentinel, Replicas: &replicas, Faults: faults}, check.Safety(check.SystemPolling)...)
}

// replicas are mutants of the rules of a replicated Redis (docs/replicas.md).
var replicas = []Mutant{
	{
		Name: "counts-without-acknowledgement", Breaks: "G1", Seeds: 60, Scenario: behindSentinel(2),
		Story: "What too few replicas have acknowledged within the time of its WAIT counts.",
		Core:  acknowledged(func(*core.Op) int64 { return 0 }, 0),
	},
	{
		Name: "answered-before-acknowledged", Breaks: "G1", Seeds: 60, Scenario: behindSentinel(2),
		Story: "Nothing waits for replicas.",
		Core:  acknowledged(func(op *core.Op) int64 { return op.Confirm }, 0),
	},
	{
		Name: "renewals-need-nobody", Breaks: "G1", Seeds: 100, Scenario: behindSentinel(2),
		Story: "A renewal is believed as soon as the master has it, whatever becomes of its WAIT.",
		Core:  acknowledged(func(op *core.Op) int64 { return op.Confirm }, core.OpRenew),
	},
	{
		Name: "renewal-with-one-less", Breaks: "G1", Seeds: 400, Scenario: behindSentinel(4),
		Story: "A renewal counts with one acknowledgement less than a majority needs.",
		Core:  acknowledged(func(*core.Op) int64 { return 1 }, core.OpRenew),
	},
	{
		Name: "acquisition-with-one-less", Breaks: "G1", Seeds: 100, Scenario: behindSentinel(4),
		Story: "An acquisition counts with one acknowledgement less than a majority needs.",
		Core:  acknowledged(func(*core.Op) int64 { return 1 }, core.OpAcquire),
	},
	{
		Name: "epoch-not-read-again", Breaks: "G1", Seeds: 60, Scenario: behindSentinel(2, fault.MasterCut, fault.ReplicaFlip),
		Story: "An acquisition counts whatever the epoch is behind WAIT: a replica that attached itself meanwhile has acknowledged what an " +
			"old master renewed.",
		Core: func(core.Config) exchange {
			return exchange{answer: func(op *core.Op, a *core.Answer) {
				if op.Probes() && a.Failure == core.FailNone && a.After != op.Epoch {
					a.After = op.Epoch
				}
			}}
		},
	},
	{
		Name: "count-learnt", Breaks: "G1", Seeds: 60, Scenario: behindSentinel(2),
		Story: "As many replicas are waited for as the master has: one that has lost them to another master waits for none.",
		Lua: []Edit{{"epoch", "local run = life(acks)",
			"acks = math.min(acks, tonumber(info('replication', 'connected_slaves:(%d+)')))\nlocal run = life(acks)"}},
	},
	{
		Name: "attachments-do-not-count", Breaks: "G1", Seeds: 60,
		Scenario: judgedBy(behindSentinel(2, fault.MasterCut, fault.ReplicaFlip), "G1"),
		Story:    "A replica that attaches itself begins no epoch.",
		Lua:      []Edit{{"life", "full + partial ..", "'0' .."}},
	},
}

// acknowledged makes ops of a kind (0: all) wait for fewer replicas, and count as if enough had acknowledged them. If fewer returns 0,
// ops wait as long as before, and missing acknowledgements are added.
func acknowledged(fewer func(*core.Op) int64, kind core.OpKind) Rules {
	return func(core.Config) exchange {
		concerns := func(op *core.Op) bool { return op.Confirm > 0 && (kind == 0 || op.Kind == kind) }
		return exchange{
			op: func(op *core.Op) bool {
				if concerns(op) {
					op.Confirm -= fewer(op)
				}
				return true
			},
			answer: func(op *core.Op, a *core.Answer) {
				less := fewer(op)
				if !concerns(op) || a.Failure != core.FailNone || a.Acked >= op.Confirm || less == 1 && a.Acked < op.Confirm-1 {
					return
				}
				a.Acked = op.Confirm
				if less == op.Confirm && op.Probes() { // an op that does not wait does not probe
					a.After = op.Epoch
				}
			},
		}
	}
}
