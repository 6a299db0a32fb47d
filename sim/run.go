package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Names of the files in a run's folder.
const (
	ReportFile   = "report.json"
	HistoryFile  = "history.jsonl"
	ScenarioFile = "scenario.yaml"
	PlanFile     = "plan.json"
	LogsDir      = "logs"
)

// ErrHarness: the run could not be started or saved; nothing was judged.
var ErrHarness = errors.New("the storm did not run")

// Options are what a run needs beside its Config. Engine is required.
type Options struct {
	Engine  Engine
	Reports string // folder for the run's own folder; "reports" if empty; made if missing
	// Started is called once, before the first node starts, with everything that was drawn; nil: not called.
	Started func(Start)
	// Progress is called while the run goes on, from one goroutine at a time; nil: not called.
	Progress func(Progress)
}

// Start is what is known of a run before its first node starts.
type Start struct {
	Dir    string
	Config Config
	Plan   fault.Plan
	Redis  RedisInfo
}

// Saved is a finished run that is not judged yet: all of it is in Dir, except what the engine alone knows.
type Saved struct {
	Start
	Engine  string
	Outcome Outcome
}

// Store runs the storm and saves history, scenario and plan in a folder of its own under o.Reports, which no other run
// uses. An error wraps ErrHarness (or ErrInvalid, where a fault was named that the engine cannot strike); the folder is
// then removed again unless nodes had started, whose logs explain the error.
func Store(ctx context.Context, c Config, o Options) (Saved, error) {
	dir, err := newDir(o.Reports, c)
	if err != nil {
		return Saved{}, err
	}
	s := Saved{Start: Start{Dir: dir, Config: c}, Engine: o.Engine.Name()}
	started, err := s.run(ctx, o)
	if cerr := o.Engine.Close(); err == nil && cerr != nil {
		s.Outcome.Notes = append(s.Outcome.Notes, "clean-up: "+cerr.Error())
	}
	switch {
	case err != nil && started:
		err = fmt.Errorf("%w; the nodes' logs are in %s", err, filepath.Join(dir, LogsDir))
	case err != nil:
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return s, err
}

// run does the work of Store between making the folder and closing the engine. It reports whether nodes may have started.
func (s *Saved) run(ctx context.Context, o Options) (started bool, err error) {
	if s.Redis, err = o.Engine.Open(ctx, s.Dir); err != nil {
		return false, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	if s.Plan, err = s.Config.Draw(o.Engine.Supports); err != nil {
		return false, err
	}
	if err := s.Plan.Save(filepath.Join(s.Dir, PlanFile)); err != nil {
		return false, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	if err := s.Config.Save(filepath.Join(s.Dir, ScenarioFile)); err != nil {
		return false, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	if o.Started != nil {
		o.Started(s.Start)
	}
	progress := o.Progress
	if progress == nil {
		progress = func(Progress) {}
	}
	rec := history.NewRecorder()
	storm := Storm{Config: s.Config, Plan: s.Plan, Dir: s.Dir, Progress: progress}
	if s.Outcome, err = o.Engine.Run(ctx, storm, rec); err != nil {
		// What was recorded may explain the error; that it could not be saved either is the smaller news.
		return true, errors.Join(fmt.Errorf("%w: %w", ErrHarness, err), rec.Save(filepath.Join(s.Dir, HistoryFile)))
	}
	if err := rec.Save(filepath.Join(s.Dir, HistoryFile)); err != nil {
		return true, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	return true, nil
}

// dirsMax bounds how many runs of one scenario and seed are kept side by side.
const dirsMax = 10_000

// newDir makes the run's folder, <scenario>-<seed>, with "-2" and so on where that is taken: another run may be using it.
func newDir(reports string, c Config) (string, error) {
	if reports == "" {
		reports = "reports"
	}
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return "", fmt.Errorf("%w: report folder: %w (flag --report)", ErrHarness, err)
	}
	base := filepath.Join(reports, c.Name+"-"+strconv.FormatUint(c.Seed, 10))
	for i := 1; i <= dirsMax; i++ {
		dir := base
		if i > 1 {
			dir += "-" + strconv.Itoa(i)
		}
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, LogsDir), 0o755)
		}
		if err != nil {
			return "", fmt.Errorf("%w: report folder: %w (flag --report)", ErrHarness, err)
		}
		return dir, nil
	}
	return "", fmt.Errorf("%w: report folder: %s and %d more exist: remove some or give another --report",
		ErrHarness, base, dirsMax-1)
}

// LoadRun returns the configuration of a saved run with its plan, to run it again.
func LoadRun(dir string) (Config, error) {
	s, err := load(filepath.Join(dir, ScenarioFile), readBounded)
	if err != nil {
		return Config{}, fmt.Errorf("saved run %s: %w", dir, err)
	}
	c, err := s.Resolve()
	if err != nil {
		return Config{}, fmt.Errorf("saved run %s: %w", dir, err)
	}
	plan, err := fault.Load(filepath.Join(dir, PlanFile))
	if err != nil {
		return Config{}, fmt.Errorf("saved run %s: %w: %w", dir, ErrInvalid, err)
	}
	if err := plan.Validate(fault.Limits{Nodes: c.Nodes, Sessions: c.Sessions, Storm: c.Storm}); err != nil {
		return Config{}, fmt.Errorf("saved run %s: %w: %s: %w", dir, ErrInvalid, PlanFile, err)
	}
	c.Plan = &plan
	return c, nil
}
