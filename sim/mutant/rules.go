package mutant

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

var rules = []Mutant{
	{
		Name: "trust-from-answer", Breaks: "G1", Seeds: 20,
		Story: "Trust is counted from the answer instead of the send (client-go's leader election).",
		Core:  fromAnswer,
	},
	{
		Name: "margin-a-tenth-short", Breaks: "G1", Seeds: 500,
		Story: "A tenth of the margin is missing: enough for all clocks but those at the edge of what is promised.",
		Core:  believing(func(c *core.Config, _ *core.Tell) int64 { return c.Margin() / 10 }),
	},
	{
		Name: "belief-until-told", Breaks: "G1", Seeds: 20,
		Story: "An owner believes until Redis says otherwise (redislock, Redisson: no local deadline).",
		Core:  untilTold,
	},
	{
		Name: "late-renewal-outlives-release", Breaks: "G10", Seeds: 200, Scenario: judgedBy(struck(), "G10"),
		Story: "The answer of a renewal counts after the term was given back (redisson#7272).",
		Core:  lateRenewals,
	},
	{
		Name: "failed-renewal-ignored", Breaks: "G4", Seeds: 20,
		Story: "A renewal that fails, or is not answered, changes nothing before the window ends.",
		Core: func(c core.Config) exchange {
			return exchange{op: patient(c), tell: func(t *core.Tell) bool { return t.Kind != core.TellUncertain }}
		},
	},
	{
		Name: "timeout-means-acquired", Breaks: "G1", Seeds: 200, Scenario: judgedBy(struck(), "G1"),
		Story: "An acquisition that was not answered is taken as granted.",
		Core:  grantsUnanswered,
	},
	{
		Name: "one-failure-ends-the-renewer", Breaks: "G9", Seeds: 50, Scenario: judgedBy(struck(fault.RedisFreeze, fault.RedisReadOnly), "G9"),
		Story: "A renewal that failed is the last (Redisson's watchdog, redisson#775, #3194).",
		Core: func(core.Config) exchange {
			failed := false
			return exchange{
				answer: func(op *core.Op, a *core.Answer) {
					failed = failed || op.Kind == core.OpRenew && a.Failure != core.FailNone
				},
				op: func(op *core.Op) bool { return !failed || op.Kind != core.OpRenew },
			}
		},
	},
	{
		Name: "short-quarantine-is-joined", Breaks: "G1", Seeds: 50,
		Scenario: judgedBy(struck(fault.RedisWipe, fault.RedisFlush, fault.Cut), "G1"),
		Story:    "An instance takes part in an epoch whose quarantine is shorter than its TTL.",
		Core: func(c core.Config) exchange {
			return exchange{
				op: func(op *core.Op) bool {
					op.Quarantine = c.TTL / 10
					return true
				},
				answer: func(_ *core.Op, a *core.Answer) { a.Group = 0 },
			}
		},
	},
	{
		Name: "quarantine-a-fifth-long", Breaks: "G9", Seeds: 50, Scenario: judgedBy(struck(), "G9"),
		Story: "A Redis that has lost its data grants leases after a TTL and a fifth.",
		Core: func(c core.Config) exchange {
			return exchange{op: func(op *core.Op) bool {
				op.Quarantine = c.TTL / 5 * 6
				return true
			}}
		},
	},
	{
		Name: "wall-clock", Breaks: "G1", Seeds: 50,
		Story: "Time is read from the wall clock alone: a window moves with every step of it (rueidislock sends wall-clock expiries).",
		Core:  wallClock,
	},
	{
		Name: "clock-stops-in-suspension", Breaks: "G4", Seeds: 20, Scenario: struck(fault.Suspend),
		Story: "Only the monotonic clock is read, which stands still while the machine sleeps (Go's, on most systems).",
		Core: func(c core.Config) exchange {
			var offset int64
			return exchange{
				event: func(ev *core.Event) {
					offset = cmp.Or(offset, ev.Now.Wall-int64(ev.Now.Mono))
					ev.Now.Wall = int64(ev.Now.Mono) + offset
				},
				tell: func(t *core.Tell) bool {
					if begins(t) {
						t.UntilWall += 100 * c.TTL
					}
					return true
				},
			}
		},
	},
	{
		Name: "given-back-while-the-poll-runs", Breaks: "G2", Seeds: 60,
		Scenario: struck(fault.Leave, fault.Join, fault.Terminate, fault.SessionRemove, fault.PollSlow),
		Story:    "A lease that is to be given up is released while its poll still runs (kubernetes#139991).",
		Core:     releasedAtOnce,
	},
	{
		Name: "expiry-is-seen-a-second-late", Breaks: "G5", Seeds: 20, Scenario: struck(fault.Crash),
		Story: "Who waits for a lease thinks that its key lives for a second more.",
		Core:  longerKeys,
	},
	{
		Name: "quota-off", Breaks: "G6", Seeds: 20,
		Story: "Sessions go to whoever ranks them highest, however many it owns: plain rendezvous hashing.",
		Run:   func(v *virtual.Config) { v.Tune = func(c *core.Config) { c.Placement = rendezvous{} } },
	},
	{
		Name: "gives-on-a-join-what-nobody-asked-for", Breaks: "G7", Seeds: 100, Scenario: struck(fault.Join),
		Story: "An owner gives a lease away when it hears of a new instance, whether that lacks one or not.",
		Core:  givesOnJoin,
	},
	{
		Name: "keeps-what-is-gone", Breaks: "G8", Seeds: 100, Scenario: struck(fault.SessionRemove, fault.SessionPause),
		Story: "A session that was removed or paused is shown in every look that follows, and polled.",
		Core:  rememberedSessions,
	},
	{
		Name: "renewal-for-longer", Breaks: "G10", Seeds: 20,
		Story: "A renewal gives the lease a tenth more than a TTL.",
		Core: func(core.Config) exchange {
			return exchange{op: func(op *core.Op) bool {
				if op.Kind == core.OpRenew {
					op.TTL = op.TTL / core.Millisecond * 11 / 10 * core.Millisecond
				}
				return true
			}}
		},
	},
	{
		Name: "gone-is-taken", Breaks: "G12", Seeds: 200, Scenario: struck(fault.KeyDelete),
		Story: "An owner whose key is gone says that another has taken it.",
		Core: func(core.Config) exchange {
			return exchange{tell: func(t *core.Tell) bool {
				if t.Kind == core.TellLost && t.Cause == core.CauseGone {
					t.Cause = core.CauseTaken
				}
				return true
			}}
		},
	},
	{
		Name: "leaves-its-heartbeat", Breaks: "G13", Seeds: 300, Scenario: judgedBy(struck(fault.Leave, fault.Terminate), "G13"),
		Story: "Who stops says so to nobody: its heartbeat lives on, and it counts for a TTL.",
		Core: func(core.Config) exchange {
			return exchange{op: func(op *core.Op) bool { return op.Kind != core.OpLeave }}
		},
	},
	{
		Name: "releases-the-first-only", Breaks: "G6", Seeds: 20,
		Story: "Of several leases that are released together the first is deleted, and the others are left to expire.",
		Core:  firstReleased,
	},
	{
		Name: "refused-at-once", Breaks: "G14", Seeds: 50, Scenario: struck(fault.RedisReadOnly, fault.RedisMemory),
		Story: "What Redis refuses is asked again at once, however often it was refused: at the speed of the network.",
		Core: func(core.Config) exchange {
			return exchange{again: func(_ *core.Op, a *core.Answer) bool { return a.Failure == core.FailRefused }}
		},
	},
}

func begins(t *core.Tell) bool { return t.Kind == core.TellAcquired || t.Kind == core.TellRenewed }

// believing makes the shell trust each term for longer, and delays the tell of a window's end accordingly.
func believing(longer func(*core.Config, *core.Tell) int64) Rules {
	return func(c core.Config) exchange {
		ends := map[string]core.Time{} // lease → end
		var now core.Time
		var late []core.Tell
		return exchange{
			event: func(ev *core.Event) { now = ev.Now.Mono },
			more: func(_ *core.Event, eff *core.Effects) {
				for _, t := range eff.Tells {
					if t.Kind == core.TellAcquired {
						delete(ends, t.ID)
					}
				}
				due := func(t core.Tell) bool { return now >= ends[t.ID] }
				eff.Tells = slices.Concat(slices.DeleteFunc(slices.Clone(late), func(t core.Tell) bool { return !due(t) }), eff.Tells)
				late = slices.DeleteFunc(late, due)
			},
			tell: func(t *core.Tell) bool {
				switch {
				case begins(t):
					by := longer(&c, t)
					t.Until, t.UntilWall = t.Until+core.Time(by), t.UntilWall+by
					ends[t.ID] = t.Until
				case t.Kind == core.TellLost && t.Cause == core.CauseExpired && now < ends[t.ID]:
					late = append(late, *t)
					return false
				}
				return true
			},
			next: func(at core.Time) core.Time {
				for _, t := range late {
					at = min(at, ends[t.ID])
				}
				return at
			},
		}
	}
}

var fromAnswer = believing(func(c *core.Config, t *core.Tell) int64 { return int64(t.At-t.Until) + c.TTL - c.Margin() })

// untilTold trusts a lease forever, whatever fails.
func untilTold(c core.Config) exchange {
	x := believing(func(c *core.Config, _ *core.Tell) int64 { return 100 * c.TTL })(c)
	longer := x.tell
	x.tell = func(t *core.Tell) bool { return t.Kind != core.TellUncertain && longer(t) }
	x.op = patient(c)
	return x
}

// patient postpones the deadline of attempts, at which trust ends without a tell.
func patient(c core.Config) func(*core.Op) bool {
	return func(op *core.Op) bool {
		if op.Kind.Extends() {
			op.Deadline += core.Time(100 * c.TTL)
		}
		return true
	}
}

// grantsUnanswered treats an unanswered acquisition as granted.
func grantsUnanswered(core.Config) exchange {
	return exchange{answer: func(op *core.Op, a *core.Answer) {
		if op.Kind != core.OpAcquire || a.Failure != core.FailUnknown {
			return
		}
		*a = core.Answer{Seq: op.Seq, Epoch: op.Epoch, Results: make([]core.Result, len(op.Items))}
		for i := range a.Results {
			a.Results[i] = core.Result{Outcome: core.OutGranted, Owner: op.Owner, Fence: op.Fence + 1}
		}
	}}
}

// lateRenewals restarts an ended term when a renewal of it is answered.
func lateRenewals(c core.Config) exchange {
	over := map[string]int64{} // lease → fence of the last term
	var late []core.Tell
	return exchange{
		answer: func(op *core.Op, a *core.Answer) {
			for i, it := range op.Items {
				if op.Kind == core.OpRenew && it.Fence == over[it.ID] && i < len(a.Results) && a.Results[i].Outcome == core.OutRenewed {
					late = append(late, core.Tell{
						Kind: core.TellRenewed, ID: it.ID, Fence: it.Fence, At: op.Sent, Sent: op.Sent, Until: op.Sent + core.Time(c.TTL-c.Margin()),
					})
				}
			}
		},
		more: func(ev *core.Event, eff *core.Effects) {
			for _, t := range eff.Tells {
				switch t.Kind {
				case core.TellAcquired:
					delete(over, t.ID)
				case core.TellReleased, core.TellLost:
					over[t.ID] = t.Fence
				}
			}
			for _, t := range late {
				t.UntilWall = ev.Now.Wall + int64(t.Until-ev.Now.Mono)
				eff.Tells = append(eff.Tells, t)
			}
			late = late[:0]
		},
	}
}

// wallClock gives the core the wall clock as its monotonic clock, and makes the shell check only the wall clock.
func wallClock(c core.Config) exchange {
	var first, offset int64 // wall − monotonic at the start, and its change since
	return exchange{
		event: func(ev *core.Event) {
			now := ev.Now.Wall - int64(ev.Now.Mono)
			first = cmp.Or(first, now)
			offset = now - first
			ev.Now.Mono += core.Time(offset)
		},
		op: func(op *core.Op) bool {
			op.Sent, op.Deadline = op.Sent-core.Time(offset), op.Deadline-core.Time(offset)
			return true
		},
		more: func(_ *core.Event, eff *core.Effects) {
			for i := range eff.Tells {
				if t := &eff.Tells[i]; begins(t) {
					t.Until += core.Time(100 * c.TTL)
				}
			}
		},
		next: func(at core.Time) core.Time { return at - core.Time(offset) },
	}
}

// releasedAtOnce reports the end of the work as soon as the core requests it.
func releasedAtOnce(core.Config) exchange {
	return exchange{
		also: func(eff *core.Effects) (drops []core.Event) {
			for _, t := range eff.Tells {
				if t.Kind == core.TellYield {
					drops = append(drops, core.Event{Kind: core.EvDrop, ID: t.ID, Cause: core.CauseRequested})
				}
			}
			return drops
		},
		tell: func(t *core.Tell) bool { return t.Kind != core.TellYield },
	}
}

// longerKeys adds a second to the remaining life of other owners' keys.
func longerKeys(core.Config) exchange {
	return exchange{answer: func(_ *core.Op, a *core.Answer) {
		for i := range a.Results {
			if r := &a.Results[i]; r.PTTL > 0 {
				r.PTTL += core.Second
			}
		}
	}}
}

func givesOnJoin(core.Config) exchange {
	held := map[string]int64{}
	return exchange{more: func(ev *core.Event, eff *core.Effects) {
		for _, t := range eff.Tells {
			switch t.Kind {
			case core.TellAcquired:
				held[t.ID] = t.Fence
			case core.TellLost, core.TellReleased, core.TellYield:
				delete(held, t.ID)
			}
		}
		if ev.Kind != core.EvNotice || ev.Notice.Kind != core.NoticeJoined || len(held) == 0 {
			return
		}
		ids := make([]string, 0, len(held))
		for id := range held {
			ids = append(ids, id)
		}
		id := slices.Min(ids)
		eff.Tells = append(eff.Tells, core.Tell{Kind: core.TellYield, Cause: core.CauseRebalance, ID: id, Fence: held[id], Owner: ev.Notice.From})
	}}
}

func rememberedSessions(core.Config) exchange {
	var seen []string
	return exchange{answer: func(_ *core.Op, a *core.Answer) {
		if a.Look == nil {
			return
		}
		seen = slices.Compact(slices.Sorted(slices.Values(append(seen, a.Look.Sessions.IDs...))))
		if len(seen) == len(a.Look.Sessions.IDs) {
			return
		}
		owners := make([]string, len(seen))
		for i, id := range seen {
			if n, ok := slices.BinarySearch(a.Look.Sessions.IDs, id); ok && a.Look.Owners != nil {
				owners[i] = a.Look.Owners[n]
			}
		}
		a.Look = &core.Look{Sessions: core.NewSessions(seen), Owners: owners, Nodes: a.Look.Nodes}
	}}
}

// firstReleased sends only the first of several releases and reports all as done.
func firstReleased(core.Config) exchange {
	return exchange{
		op: func(op *core.Op) bool {
			if op.Kind == core.OpRelease && len(op.Items) > 1 {
				op.Items = op.Items[:1]
			}
			return true
		},
		answer: func(op *core.Op, a *core.Answer) {
			for op.Kind == core.OpRelease && a.Failure == core.FailNone && len(a.Results) < len(op.Items) {
				a.Results = append(a.Results, core.Result{Outcome: core.OutReleased})
			}
		},
	}
}

// rendezvous gives each session to the instance that ranks it highest.
type rendezvous struct{}

// Place implements core.Placement.
func (rendezvous) Place(s *core.Sessions, instances []uint64, _ []int32) (target, quota []int32) {
	for _, id := range s.IDs {
		best, most := int32(0), uint64(0)
		for i, instance := range instances {
			h := fnv.New64a()
			_, _ = fmt.Fprint(h, instance, id)
			if rank := h.Sum64(); rank > most {
				best, most = int32(i), rank
			}
		}
		target = append(target, best)
	}
	for range instances {
		quota = append(quota, int32(len(s.IDs)))
	}
	return target, quota
}
