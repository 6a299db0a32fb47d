package explore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Exploration is a range of seeds to run in virtual time. sim.Scenario.Swarm draws each, and the judge judges it in memory.
type Exploration struct {
	Scenario  sim.Scenario // given values for every seed; the rest is drawn
	Seeds     SeedRange
	Shard     Shard
	Parallel  int    // simultaneous runs; at least 1
	KeepGoing bool   // continue after a failed seed
	Resume    bool   // continue the same exploration if it ran before
	Reports   string // folder for the state and the folders of failed seeds; default "reports"

	Progress func(Coverage) // called about once a second from one goroutine; nil: not called
	// Saved, if set, is called with each failed seed's run once it has a folder, from up to Parallel goroutines at once.
	Saved func(sim.Result)
	Bend  sim.Breaker // changes each virtual run, for example to break it; nil: no change
}

// SeedRange is an inclusive range of seeds.
type SeedRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// SeedsMax bounds a range, so that a typing error does not run for a year.
const SeedsMax = 1_000_000_000_000

const shardsMax = 1_000_000

// Shard is one of several parts of a range: every Of-th seed from the Index-th, counted from 1.
type Shard struct {
	Index uint64 `json:"index"`
	Of    uint64 `json:"of"`
}

func (r SeedRange) count(s Shard) uint64 {
	all := r.To - r.From + 1
	if all < s.Index {
		return 0
	}
	return (all-s.Index)/s.Of + 1
}

// seed returns the i-th seed of the shard, from 0.
func (r SeedRange) seed(s Shard, i uint64) uint64 { return r.From + s.Index - 1 + i*s.Of }

func (x Exploration) check() error {
	if x.Parallel < 1 || x.Parallel > 1024 {
		return wrong("parallel", "%d is out of range: 1 to 1024 runs at a time", x.Parallel)
	}
	if err := checkRange(x.Seeds, x.Shard); err != nil {
		return err
	}
	_, _, err := x.Scenario.Swarm(x.Seeds.From)
	return err
}

func checkRange(seeds SeedRange, shard Shard) error {
	switch {
	case seeds.From == 0 || seeds.To < seeds.From:
		return wrong("seeds", "%d-%d is no range: give the first seed, from 1, and the last, such as 1-1000",
			seeds.From, seeds.To)
	case seeds.To-seeds.From >= SeedsMax || seeds.To == math.MaxUint64:
		return wrong("seeds", "%d-%d is too many or too far: at most %d seeds, below %d", seeds.From, seeds.To,
			SeedsMax, uint64(math.MaxUint64))
	case shard.Of < 1 || shard.Of > shardsMax || shard.Index < 1 || shard.Index > shard.Of:
		return wrong("shard", "%d/%d is out of range: give 1/n to n/n, n at most %d", shard.Index, shard.Of, shardsMax)
	case seeds.count(shard) == 0:
		return wrong("shard", "%d/%d has no seed: %d-%d has only %d", shard.Index, shard.Of, seeds.From, seeds.To,
			seeds.To-seeds.From+1)
	}
	return nil
}

// FailedSeed is a seed that broke a guarantee or panicked.
type FailedSeed struct {
	Seed   uint64   `json:"seed"`
	Broke  []string `json:"broke"`         // guarantees, or one of the constants below
	Detail string   `json:"detail"`        // of the first broken one
	Dir    string   `json:"dir,omitempty"` // folder of the run, "" for none
	SHA256 string   `json:"historySha256,omitempty"`

	Plan json.RawMessage `json:"plan,omitempty"` // drawn fault.Plan
}

// Values of FailedSeed.Broke besides guarantees.
const (
	brokePanic       = "panic" // the tested code or the engine panicked
	brokeHang        = "hang"  // the tested code looped at one instant
	brokeDeterminism = "determinism"
	brokeScripts     = "scripts"
)

// detailMax bounds the text of a failed seed, in bytes. A panic includes its stack.
const detailMax = 64 << 10

// One seed in repeatEvery runs twice, and the histories must match.
const repeatEvery = 20

// One seed in scriptsEvery also runs with the .lua files, and the histories must match. scriptsAt avoids the seeds of repeatEvery.
const (
	scriptsEvery = 100
	scriptsAt    = 50
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

// Run runs the seeds and returns the coverage. An error wraps sim.ErrInvalid, ErrState or sim.ErrHarness; a broken guarantee is no error.
// When ctx ends, Run returns the coverage so far, and Exploration.Resume continues from it. Run also returns the coverage with an error,
// so broken guarantees are known even if they could not be saved.
func Run(ctx context.Context, x Exploration) (Coverage, error) {
	x.Scenario.Engine = sim.EngineVirtual
	if err := x.check(); err != nil {
		return Coverage{}, err
	}
	if x.Reports == "" {
		x.Reports = "reports"
	}
	if err := os.MkdirAll(x.Reports, 0o755); err != nil {
		return Coverage{}, fmt.Errorf("%w: report folder: %w (flag --report)", sim.ErrHarness, err)
	}
	st, err := openState(x)
	if err != nil {
		return Coverage{}, err
	}
	if st.Old > 0 {
		if err := x.sameProgram(ctx, st); err != nil {
			return Coverage{}, errors.Join(err, st.unlock())
		}
	}
	err = errors.Join(x.run(ctx, st), st.close())
	return st.Coverage, err
}

func (x Exploration) run(ctx context.Context, st *state) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	work, done := make(chan uint64), make(chan seedResult)
	var workers sync.WaitGroup
	for range x.Parallel {
		workers.Go(func() {
			for i := range work {
				if running.Err() != nil {
					return
				}
				r := x.one(running, ctx, i)
				if r.err != nil || r.failed != nil && !x.KeepGoing {
					stop() // here, so that this worker begins no other seed
				}
				done <- r
			}
		})
	}
	first, total, beyond := st.Next, st.Total, slices.Clone(st.Beyond)
	go func() {
		defer func() { close(work); workers.Wait(); close(done) }()
		for i := first; i < total; i++ {
			if _, done := slices.BinarySearch(beyond, i); done {
				continue
			}
			select {
			case work <- i:
			case <-running.Done():
				return
			}
		}
	}()
	var err error
	for r := range done {
		err = errors.Join(err, r.err)
		if r.stopped || r.err != nil && r.failed == nil {
			continue
		}
		st.take(r)
		if terr := st.tick(x.Progress); terr != nil {
			err = errors.Join(err, terr)
			stop()
		}
	}
	return err
}

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

// criteria returns the guarantees that decide an exploration: the named ones, or all of the system.
func criteria(system string, named []string) []string {
	if len(named) > 0 {
		return named
	}
	return check.IDs(system)
}

func wrong(key, format string, args ...any) error {
	return &sim.KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}
