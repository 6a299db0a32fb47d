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

// Exploration is a range of seeds to run in virtual time, each drawn by sim.Scenario.Swarm and judged in memory.
type Exploration struct {
	Scenario  sim.Scenario // what it says is the same in every seed; the rest is drawn
	Seeds     SeedRange
	Shard     Shard
	Parallel  int    // runs at a time; at least 1
	KeepGoing bool   // do not stop at the first seed that fails
	Resume    bool   // go on where the same exploration stopped, if it ran before
	Reports   string // folder for the state and the folders of failing seeds; "reports" if empty

	Progress func(Coverage) // called about once a second from one goroutine; nil: not called
	// Saved is called with each failing seed's run when it has a folder, from Parallel goroutines at once; nil: not called.
	Saved func(sim.Result)
	Bend  sim.Breaker // breaks the instances on purpose; nil: not
}

// SeedRange is a range of seeds, both ends in it.
type SeedRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// SeedsMax bounds a range, so that a typing error does not run for a year.
const SeedsMax = 1_000_000_000_000

const shardsMax = 1_000_000

// Shard is one of several parts of a range: every Of-th seed, beginning with the Index-th, counted from 1.
type Shard struct {
	Index uint64 `json:"index"`
	Of    uint64 `json:"of"`
}

// count is how many seeds the shard has.
func (r SeedRange) count(s Shard) uint64 {
	all := r.To - r.From + 1
	if all < s.Index {
		return 0
	}
	return (all-s.Index)/s.Of + 1
}

// seed is the i-th seed of the shard, from 0.
func (r SeedRange) seed(s Shard, i uint64) uint64 { return r.From + s.Index - 1 + i*s.Of }

// check refuses ranges, shards and numbers that cannot be explored.
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

// FailedSeed is a seed that broke a guarantee.
type FailedSeed struct {
	Seed   uint64   `json:"seed"`
	Broke  []string `json:"broke"`         // guarantees, or brokePanic and so on
	Detail string   `json:"detail"`        // of the first
	Dir    string   `json:"dir,omitempty"` // its folder, "" if it has none
	SHA256 string   `json:"historySha256,omitempty"`

	Plan json.RawMessage `json:"plan,omitempty"` // what it drew, a fault.Plan
}

// What a seed may break beside guarantees.
const (
	brokePanic       = "panic" // of the accused, or of the engine
	brokeHang        = "hang"  // of the accused: it went on for ever at one instant
	brokeDeterminism = "determinism"
	brokeScripts     = "scripts"
)

// detailMax bounds the text of a failed seed: a panic with its stack.
const detailMax = 64 << 10

// repeatEvery: in so many is run twice, and the histories are compared.
const repeatEvery = 20

// scriptsEvery: in so many is run a second time with the .lua files themselves in the place of their Go twins, and the
// histories are compared. scriptsAt says which of them: none that is repeated anyway.
const (
	scriptsEvery = 100
	scriptsAt    = 50
)

// seedResult is what one seed came to.
type seedResult struct {
	index       uint64
	seed        uint64
	sum         string
	verdicts    []check.Verdict
	virtual     time.Duration
	events      int64
	failed      *FailedSeed
	repeated    bool
	interpreted bool  // run a second time with the scripts themselves
	err         error // of the harness
	stopped     bool  // the exploration ended before the seed did
}

// Run runs the seeds and returns what it covered. An error wraps sim.ErrInvalid, ErrState or sim.ErrHarness; a guarantee that broke
// is none. When ctx ends, what was covered so far is returned, and Exploration.Resume goes on from there. It is returned beside an error
// too: what broke a guarantee has done so, also where there is no room to save it.
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
					stop() // here, so that this worker begins no other
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

// one runs one seed, and again where it failed (to save it, until saving ends) or where its turn has come to be compared.
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
		c.Criteria = check.IDs(c.System) // whatever breaks decides, also what the plan was not meant to put to the test
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

// decides reports whether a break of the guarantee fails a seed: those that are never excused always do.
func decides(id string, c sim.Config) bool {
	return slices.Contains(c.Criteria, id) || slices.Contains(check.Safety(c.System), id)
}

// save runs the seed once more, into a folder of its own. That there can be none does not undo what it broke.
func (x Exploration) save(ctx context.Context, c sim.Config, plan fault.Plan, r *seedResult) {
	c.Plan = &plan
	saved, err := sim.Run(ctx, c, sim.Options{Engine: sim.NewVirtual(x.Bend), Reports: x.Reports})
	if err != nil {
		r.err = fmt.Errorf("seed %d breaks %s: its folder: %w", r.seed, strings.Join(r.failed.Broke, ", "), err)
		return
	}
	switch {
	case saved.Outcome.Interrupted: // the seed counts as not run: nothing tells of its folder
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

// again reports whether there was a second run to compare; where its history is another one, the seed broke what.
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

// criteria are the guarantees that decide an exploration: those named, else all of the system.
func criteria(system string, named []string) []string {
	if len(named) > 0 {
		return named
	}
	return check.IDs(system)
}

func wrong(key, format string, args ...any) error {
	return &sim.KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}
