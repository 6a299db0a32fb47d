package explore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

type seedResult struct {
	index       uint64
	seed        uint64
	sum         string
	verdicts    []check.Verdict
	virtual     time.Duration
	events      int64
	failed      *FailedSeed
	repeated    bool
	interpreted bool  // compared with a run of the .lua files
	err         error // of the harness
	stopped     bool  // the exploration ended first
}

// detailMax bounds the text of a failed seed, in bytes. A panic includes its stack.
const detailMax = 64 << 10

// One seed in repeatEvery runs twice, and the histories must match.
const repeatEvery = 20

// One seed in scriptsEvery also runs with the .lua files, and the histories must match. scriptsAt avoids the seeds of repeatEvery.
const (
	scriptsEvery = 100
	scriptsAt    = 50
)

// one runs a seed. It repeats a failed seed to save it (until saving ends), and some others to compare them.
func (x Exploration) one(ctx, saving context.Context, i uint64) (r seedResult) {
	r = seedResult{index: i, seed: x.Seeds.seed(x.Shard, i)}
	c, plan, err := x.Scenario.Swarm(r.seed)
	if err != nil {
		r.err = err
		return r
	}
	defer func() {
		if r.failed != nil {
			r.failed.Plan, err = json.Marshal(plan)
			r.err = errors.Join(r.err, err)
		}
	}()
	if len(c.Criteria) == 0 {
		c.Criteria = check.IDs(c.System) // every guarantee decides, even if the plan is not meant to exercise it
	}
	verdicts, out, events, err := sim.JudgeVirtual(ctx, c, plan, x.Bend)
	var crash *sim.PanicError
	switch {
	case errors.As(err, &crash):
		r.failed = &FailedSeed{Seed: r.seed, Broke: []string{brokePanic}, Detail: plain.Cut(crash.Error(), detailMax-len("…"))}
		return r
	case err != nil:
		r.err = fmt.Errorf("%w: seed %d: %w", sim.ErrHarness, r.seed, err)
		return r
	case out.Interrupted:
		r.stopped = true
		return r
	}
	r.sum, r.virtual, r.events, r.verdicts = out.SHA256, out.Virtual, events, verdicts
	var broke []string
	detail := ""
	for _, v := range verdicts {
		if v.Verdict == check.Fail && decides(v.ID, c) {
			broke = append(broke, v.ID)
			detail = cmp.Or(detail, v.ID+": "+v.Detail)
		}
	}
	detail = plain.Cut(detail, 600)
	if out.Fell != "" {
		what := brokePanic
		if out.Hung {
			what = brokeHang
		}
		broke, detail = append(broke, what), cmp.Or(detail, plain.Cut(out.Fell, detailMax-len("…")))
	}
	if len(broke) > 0 {
		r.failed = &FailedSeed{Seed: r.seed, Broke: broke, Detail: detail, SHA256: r.sum}
		x.save(saving, c, plan, &r)
		return r
	}
	switch {
	case r.seed%repeatEvery == 0:
		r.repeated = x.again(ctx, c, plan, x.Bend, brokeDeterminism, &r)
	case r.seed%scriptsEvery == scriptsAt:
		r.interpreted = x.again(ctx, c, plan, sim.Interpreted(x.Bend), brokeScripts, &r)
	}
	return r
}

// decides reports whether a break of the guarantee fails a seed. Safety guarantees always do.
func decides(id string, c sim.Config) bool {
	return slices.Contains(c.Criteria, id) || slices.Contains(check.Safety(c.System), id)
}

// save repeats the seed in its own folder. If it cannot be saved, it still counts as failed.
func (x Exploration) save(ctx context.Context, c sim.Config, plan fault.Plan, r *seedResult) {
	c.Plan = &plan
	saved, err := sim.Run(ctx, c, sim.Options{Engine: sim.NewVirtual(x.Bend), Reports: x.Reports})
	if err != nil {
		r.err = fmt.Errorf("seed %d breaks %s: its folder: %w", r.seed, strings.Join(r.failed.Broke, ", "), err)
		return
	}
	switch {
	case saved.Outcome.Interrupted: // the seed counts as unfinished, so remove its folder
		r.stopped, r.err = true, os.RemoveAll(saved.Dir)
		return
	case saved.Outcome.SHA256 != r.sum:
		r.failed.Broke = append(r.failed.Broke, brokeDeterminism)
	}
	r.failed.Dir = saved.Dir
	if x.Saved != nil {
		x.Saved(saved)
	}
}

// again runs the seed a second time and reports whether it could compare. If the histories differ, the seed broke what.
func (x Exploration) again(ctx context.Context, c sim.Config, plan fault.Plan, bend sim.Breaker, what string, r *seedResult) bool {
	out, err := sim.PlayVirtual(ctx, c, plan, bend)
	if err != nil || out.Interrupted {
		r.err, r.stopped = err, out.Interrupted
		return false
	}
	if out.SHA256 != r.sum {
		r.failed = &FailedSeed{
			Seed: r.seed, Broke: []string{what}, Detail: "the second run's history has the sha256 " + out.SHA256, SHA256: r.sum,
		}
	}
	return true
}
