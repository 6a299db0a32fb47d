package mutant

import (
	"net/http"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// elected is a storm of elections with faults of those kinds alone.
func elected(kinds ...fault.Kind) sim.Scenario { return of(sim.SystemElection, struck(kinds...)) }

// elections are mutants of a member's part in an election.
var elections = []Mutant{
	{
		Name: "leadership-from-answer", Breaks: "E1", Seeds: 200, Scenario: elected(),
		Story: "Leadership is counted from the answer instead of the send (client-go's leader election).",
		Core:  fromAnswer,
	},
	{
		Name: "leads-until-told", Breaks: "E5", Seeds: 50, Scenario: judgedBy(elected(), "E5"),
		Story: "A leader leads until it reads another's name.",
		Core:  untilTold,
	},
	{
		Name: "old-leader-writes-on", Breaks: "E2", Seeds: 200, Scenario: judgedBy(elected(), "E2"),
		Story: "A leader leads a TTL longer than it may.",
		Core:  believing(func(c *core.Config, _ *core.Tell) int64 { return c.TTL }),
	},
	{
		Name: "leaders-have-one-fence", Breaks: "E3", Seeds: 20, Scenario: elected(),
		Story: "Every leadership has the same fence.",
		Lua:   []Edit{{"acquire", grantFence, "local fence = ran(1)"}},
	},
	{
		Name: "succeeds-a-second-late", Breaks: "E4", Seeds: 20, Scenario: elected(fault.Crash),
		Story: "A follower thinks that the leader key lives for a second more.",
		Core:  longerKeys,
	},
	{
		Name: "elected-twice", Breaks: "E6", Seeds: 20, Scenario: elected(),
		Story: "A member says twice that it was elected.",
		Run: member(func(_ *election.Input, eff *election.Effects, ran func()) {
			for i, e := range eff.Events {
				if e.Kind == election.LeadershipAcquired {
					eff.Events = slices.Insert(slices.Clone(eff.Events), i, e)
					ran()
					return
				}
			}
		}),
	},
	{
		Name: "does-not-stand-again", Breaks: "E6", Seeds: 100, Scenario: elected(),
		Story: "Who lost a leadership does not stand again before it starts anew.",
		Run: member(func(in *election.Input, eff *election.Effects, ran func()) {
			if in.Kind == election.Tell && in.Tell == core.TellLost && eff.Want {
				eff.Want = false
				ran()
			}
		}),
	},
	{
		Name: "renews-ten-times-as-often", Breaks: "E7", Seeds: 20, Scenario: elected(),
		Story: "A leader renews its lease ten times as often as it should.",
		Run:   tuned(func(c *core.Config) { c.Renew /= 10 }),
	},
}

// member alters what a member's machine asks for.
func member(alter func(*election.Input, *election.Effects, func())) func(*virtual.Config, func()) {
	return func(v *virtual.Config, ran func()) {
		v.Seams.Election = func(in election.Input, step func(election.Input) election.Effects) election.Effects {
			eff := step(in)
			alter(&in, &eff, ran)
			return eff
		}
	}
}

// tuned gives cores other settings than those that the judge knows.
func tuned(by func(*core.Config)) func(*virtual.Config, func()) {
	return func(v *virtual.Config, ran func()) {
		v.Tune = func(c *core.Config) {
			by(c)
			ran()
		}
	}
}

// asked is a storm of intents with faults of those kinds alone.
func asked(kinds ...fault.Kind) sim.Scenario { return of(sim.SystemIntents, struck(kinds...)) }

// intents are mutants of the system of intents and workers.
var intents = []Mutant{
	{
		Name: "launches-twice", Breaks: "I1", Seeds: 10, Scenario: asked(),
		Story: "A session whose start was written launches its pipeline twice.",
		Run: worker(nil, func(effects []intent.Effect, ran func()) []intent.Effect {
			for i, e := range effects {
				if e.Kind == intent.Launch {
					ran()
					return slices.Insert(slices.Clone(effects), i, e)
				}
			}
			return effects
		}),
	},
	{
		Name: "leases-are-taken-from-anybody", Breaks: "I1", Seeds: 20, Scenario: asked(),
		Story: "A lease that a worker has passed on is taken from whoever holds it.",
		Lua:   []Edit{{"pass", "redis.pcall('GET', lease) == ARGV[1]", "ran(true)"}},
	},
	{
		Name: "key-life-in-seconds", Breaks: "I2", Seeds: 10, Scenario: asked(),
		Story: "An idempotency key is given as many milliseconds as it should have seconds.",
		Lua:   []Edit{{"put", "'PX', ARGV[10])", "'PX', ran(math.floor(ARGV[10] / 1000)))"}},
	},
	{
		Name: "start-is-not-published", Breaks: "I3", Seeds: 40, Scenario: asked(),
		Story: "A start is accepted that no worker hears of.",
		Lua:   []Edit{{"put", "start(id, ARGV[6], ARGV[7], ARGV[8])", "ran('')"}},
	},
	{
		Name: "state-without-fence", Breaks: "I3", Seeds: 60, Scenario: asked(),
		Story: "A worker writes a session's state whoever has written it since.",
		Lua:   []Edit{{"write", "if known > tonumber(ARGV[7]) then", "if ran(false) then"}},
	},
	{
		Name: "accepted-is-called-refused", Breaks: "I4", Seeds: 10, Scenario: asked(),
		Story: "An API that accepts a start tells the caller that it was refused.",
		Run: func(v *virtual.Config, ran func()) {
			v.Seams.Status = func(code int) int {
				if code == http.StatusAccepted {
					ran()
					return http.StatusConflict
				}
				return code
			}
		},
	},
	{
		Name: "busy-is-no-slot", Breaks: "I5", Seeds: 10, Scenario: asked(),
		Story: "A start whose service is in use is told that no tuner slot is free.",
		Run: worker(nil, func(effects []intent.Effect, ran func()) []intent.Effect {
			for i := range effects {
				if effects[i].Reason == intent.LeaseBusy {
					effects[i].Reason = intent.NoTuner
					ran()
				}
			}
			return effects
		}),
	},
	{
		Name: "keeps-its-slot", Breaks: "I6", Seeds: 10, Scenario: asked(),
		Story: "A session that ends gives its service back and leaves its tuner slot to expire.",
		Core: func(_ core.Config, ran func()) exchange {
			return exchange{op: func(op *core.Op) bool {
				if op.Kind == core.OpRelease && slices.ContainsFunc(op.Items, func(it core.Item) bool { return it.ID[0] == 't' }) {
					ran()
					return false
				}
				return true
			}}
		},
	},
	{
		Name: "worker-renews-ten-times-as-often", Breaks: "I7", Seeds: 20, Scenario: asked(),
		Story: "A worker renews its leases ten times as often as it should.",
		Run:   tuned(func(c *core.Config) { c.Renew /= 10 }),
	},
}

// worker alters what a worker's machine is told and asks for.
func worker(told func(*intent.Event, func()), asks func([]intent.Effect, func()) []intent.Effect) func(*virtual.Config, func()) {
	return func(v *virtual.Config, ran func()) {
		v.Seams.Intent = func(e intent.Event, step func(intent.Event) []intent.Effect) []intent.Effect {
			if told != nil {
				told(&e, ran)
			}
			effects := step(e)
			if asks != nil {
				effects = asks(effects, ran)
			}
			return effects
		}
	}
}
