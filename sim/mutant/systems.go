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

// elected is an election storm with only these kinds of faults.
func elected(kinds ...fault.Kind) sim.Scenario { return of(sim.SystemElection, struck(kinds...)) }

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
		Lua:   constantFence,
	},
	{
		Name: "succeeds-a-second-late", Breaks: "E4", Seeds: 20, Scenario: elected(fault.Crash),
		Story: "A follower thinks that the leader key lives for a second more.",
		Core:  longerKeys,
	},
	{
		Name: "elected-twice", Breaks: "E6", Seeds: 20, Scenario: elected(),
		Story: "A member says twice that it was elected.",
		Run: member(func(_ *election.Input, eff *election.Effects) {
			eff.Events = twice(eff.Events, func(e election.Event) bool { return e.Kind == election.LeadershipAcquired })
		}),
	},
	{
		Name: "does-not-stand-again", Breaks: "E6", Seeds: 100, Scenario: elected(),
		Story: "Who lost a leadership does not stand again before it starts anew.",
		Run: member(func(in *election.Input, eff *election.Effects) {
			if in.Kind == election.Tell && in.Tell == core.TellLost && eff.Want {
				eff.Want = false
			}
		}),
	},
	{
		Name: "renews-ten-times-as-often", Breaks: "E7", Seeds: 20, Scenario: elected(),
		Story: "A leader renews its lease ten times as often as it should.",
		Run:   renewsOften,
	},
}

func twice[T any](all []T, matches func(T) bool) []T {
	if i := slices.IndexFunc(all, matches); i >= 0 {
		return slices.Insert(slices.Clone(all), i, all[i])
	}
	return all
}

func member(alter func(*election.Input, *election.Effects)) sim.Breaker {
	return func(v *virtual.Config) {
		v.Seams.Election = func(in election.Input, step func(election.Input) election.Effects) election.Effects {
			eff := step(in)
			alter(&in, &eff)
			return eff
		}
	}
}

func renewsOften(v *virtual.Config) { v.Tune = func(c *core.Config) { c.Renew /= 10 } }

// asked is an intent storm with only these kinds of faults.
func asked(kinds ...fault.Kind) sim.Scenario { return of(sim.SystemIntents, struck(kinds...)) }

var intents = []Mutant{
	{
		Name: "launches-twice", Breaks: "I1", Seeds: 10, Scenario: asked(),
		Story: "A session whose start was written launches its pipeline twice.",
		Run: worker(func(effects []intent.Effect) []intent.Effect {
			return twice(effects, func(e intent.Effect) bool { return e.Kind == intent.Launch })
		}),
	},
	{
		Name: "leases-are-taken-from-anybody", Breaks: "I1", Seeds: 20, Scenario: asked(),
		Story: "A lease that a worker has passed on is taken from whoever holds it.",
		Lua:   []Edit{{"pass", "redis.pcall('GET', lease) == ARGV[1]", "true"}},
	},
	{
		Name: "key-life-in-seconds", Breaks: "I2", Seeds: 10, Scenario: asked(),
		Story: "An idempotency key is given as many milliseconds as it should have seconds.",
		Lua:   []Edit{{"put", "'PX', ARGV[10])", "'PX', math.floor(ARGV[10] / 1000))"}},
	},
	{
		Name: "start-is-not-published", Breaks: "I3", Seeds: 40, Scenario: asked(),
		Story: "A start is accepted that no worker hears of.",
		Lua:   []Edit{{"put", "start(id, ARGV[6], ARGV[7], ARGV[8])", "''"}},
	},
	{
		Name: "state-without-fence", Breaks: "I3", Seeds: 60, Scenario: asked(),
		Story: "A worker writes a session's state whoever has written it since.",
		Lua:   []Edit{{"write", "if known > tonumber(ARGV[7]) then", "if false then"}},
	},
	{
		Name: "accepted-is-called-refused", Breaks: "I4", Seeds: 10, Scenario: asked(),
		Story: "An API that accepts a start tells the caller that it was refused.",
		Run: func(v *virtual.Config) {
			v.Seams.Status = func(code int) int {
				if code == http.StatusAccepted {
					return http.StatusConflict
				}
				return code
			}
		},
	},
	{
		Name: "busy-is-no-slot", Breaks: "I5", Seeds: 10, Scenario: asked(),
		Story: "A start whose service is in use is told that no tuner slot is free.",
		Run: worker(func(effects []intent.Effect) []intent.Effect {
			for i := range effects {
				if effects[i].Reason == intent.LeaseBusy {
					effects[i].Reason = intent.NoSlot
				}
			}
			return effects
		}),
	},
	{
		Name: "keeps-its-slot", Breaks: "I6", Seeds: 10, Scenario: asked(),
		Story: "A session that ends gives its service back and leaves its tuner slot to expire.",
		Core: func(core.Config) exchange {
			return exchange{op: func(op *core.Op) bool {
				return op.Kind != core.OpRelease || !slices.ContainsFunc(op.Items, func(it core.Item) bool { return it.ID[0] == 't' })
			}}
		},
	},
	{
		Name: "worker-renews-ten-times-as-often", Breaks: "I7", Seeds: 20, Scenario: asked(),
		Story: "A worker renews its leases ten times as often as it should.",
		Run:   renewsOften,
	},
}

func worker(alter func([]intent.Effect) []intent.Effect) sim.Breaker {
	return func(v *virtual.Config) {
		v.Seams.Intent = func(e intent.Event, step func(intent.Event) []intent.Effect) []intent.Effect { return alter(step(e)) }
	}
}
