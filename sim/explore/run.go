package explore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/leasestorm/leasestorm/sim"
)

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
	if st.old > 0 {
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
	var err error
	for r := range x.results(ctx, running, stop, st.unfinished()) {
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

// results runs the seeds at the indices, Parallel at a time, until running ends, and sends their results. stop ends running.
func (x Exploration) results(saving, running context.Context, stop func(), indices iter.Seq[uint64]) <-chan seedResult {
	work, done := make(chan uint64), make(chan seedResult)
	var workers sync.WaitGroup
	for range x.Parallel {
		workers.Go(func() {
			for i := range work {
				done <- x.next(saving, running, stop, i)
			}
		})
	}
	go func() {
		defer func() { close(work); workers.Wait(); close(done) }()
		for i := range indices {
			select {
			case work <- i:
			case <-running.Done():
				return
			}
		}
	}()
	return done
}

// next runs a seed unless running has ended, and ends running if that seed decides the exploration.
func (x Exploration) next(saving, running context.Context, stop func(), i uint64) seedResult {
	if running.Err() != nil {
		return seedResult{stopped: true}
	}
	r := x.one(running, saving, i)
	if r.err != nil || r.failed != nil && !x.KeepGoing {
		stop() // here, so that this worker begins no other seed
	}
	return r
}

// sameProgram repeats the last seed and refuses to resume if the history differs, because a commit does not fix Go and the machine.
func (x Exploration) sameProgram(ctx context.Context, st *state) error {
	if st.Last == nil || st.Last.SHA256 == "" {
		return nil // none, or a panic without history
	}
	c, plan, err := x.Scenario.Swarm(st.Last.Seed)
	if err != nil {
		return err
	}
	out, err := sim.PlayVirtual(ctx, c, plan, x.Bend)
	if err != nil || out.Interrupted || out.SHA256 == st.Last.SHA256 {
		return err
	}
	return fmt.Errorf("%w: --resume: seed %d had a history of sha256 %s and has one of %s now: another program explored it than this "+
		"one (commit %q): begin anew in another --report", ErrState, st.Last.Seed, st.Last.SHA256, out.SHA256, st.Commit)
}
