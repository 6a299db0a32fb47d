package virtual

import (
	"iter"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// params is what the judge must know of a run.
func params(cfg Config, plan fault.Plan) check.Params {
	cfg = cfg.withDefaults()
	return check.Params{
		Nodes: cfg.Nodes, Sessions: cfg.Sessions,
		Timings: timing.Timings{
			TTL: cfg.TTL, Renew: cfg.Renew, RenewTimeout: cfg.OpTimeout, Heartbeat: cfg.Renew, Discovery: cfg.Discovery,
			Poll: cfg.Poll, PollTimeout: cfg.PollTimeout, Serve: cfg.Serve,
		},
		Duration: cfg.Storm + cfg.Calm, Plan: plan, Tap: true, Redis: "model",
	}
}

func inOrder(events []history.Event) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// drawn is the run that `simulate` makes by default, in virtual time.
func drawn(seed uint64, speed time.Duration) (Config, fault.Plan) {
	cfg := Config{
		Nodes: 10, Sessions: 100, TTL: 30 * time.Second / speed, Poll: 5 * time.Second / speed,
		Storm: 48 * time.Second, Calm: 12 * time.Second,
	}
	if speed == 1 {
		cfg.Storm, cfg.Calm = 220*time.Second, 80*time.Second
	}
	cfg = cfg.withDefaults()
	return cfg, fault.Draw(seed, fault.DrawParams{
		Nodes: cfg.Nodes, Sessions: cfg.Sessions,
		Timings: timing.Timings{
			TTL: cfg.TTL, Renew: cfg.Renew, Discovery: cfg.Discovery, Poll: cfg.Poll, PollTimeout: cfg.PollTimeout,
		},
		Storm: cfg.Storm,
	})
}

// judgeSeeds is how many drawn storms a test lets the judge read.
const judgeSeeds = 8

// The judge of the real engine reads the histories of this one, and finds that every guarantee held and was put to the
// test by the default storm, at both speeds. G12 is about logs, which package sim hands to the judge.
func TestJudgeReadsVirtualStorms(t *testing.T) {
	for _, speed := range []time.Duration{10, 1} {
		for seed := range uint64(judgeSeeds) {
			cfg, plan := drawn(seed, speed)
			var events []history.Event
			if _, err := Run(cfg, plan, seed, func(e history.Event) { events = append(events, e) }); err != nil {
				t.Fatal(err)
			}
			r, err := check.Judge(params(cfg, plan), inOrder(events), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Verdicts {
				if v.Verdict != check.Pass && v.ID != "G12" {
					t.Errorf("speed %d, seed %d: %s is %s: %d of at most %d %s; %s", speed, seed, v.ID, v.Verdict, v.Value, v.Limit,
						v.Unit, v.Detail)
				}
			}
		}
	}
}
