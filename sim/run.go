package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/report"
)

// ErrUnsaved means that a run was judged but not saved completely. Result holds the verdict. The error also wraps ErrHarness.
var ErrUnsaved = errors.New("judged, but not saved")

// ErrHarness means that the run could not start or be saved.
var ErrHarness = errors.New("the storm did not run")

// harness is an ErrHarness with its own text, for a storm that ran.
type harness struct{ error }

func (harness) Is(target error) bool { return target == ErrHarness }

func (h harness) Unwrap() error { return h.error }

// Options are the parameters of a run besides its Config. Engine is required.
type Options struct {
	Engine  Engine
	Reports string // parent of the run's folder, created if missing; default "reports"
	// Least is the number of times that a pass requires each deciding guarantee to be exercised; 0 means once.
	Least int
	// Started, if set, is called once, before the first node starts, with all drawn values.
	Started func(Start)
	// Progress, if set, is called during the run, from one goroutine at a time.
	Progress func(Progress)
}

// Start describes a run before its first node starts.
type Start struct {
	Dir    string
	Config Config
	Plan   fault.Plan
	Redis  real.Info
}

const noteMax = 500

// Result is a judged run.
type Result struct {
	Start
	Outcome Outcome
	Report  report.Report // as saved

	least   int               // Options.Least
	unsaved error             // why the history is not in the folder, or the logs are incomplete
	sums    map[string]string // of the files that exist before the first node starts
}

// Run runs the storm, saves history, scenario and plan in a new folder under o.Reports, judges the run from that folder and saves the
// report there. A broken guarantee is no error; see Result.Report.
//
// An error wraps ErrHarness, or ErrInvalid if the engine cannot inject a named fault. Run then removes the folder, unless nodes had
// started, because their logs may explain the error. When ctx ends, Run stops within 3 s and judges the events so far.
func Run(ctx context.Context, c Config, o Options) (Result, error) {
	dir, err := newDir(o.Reports, c)
	if err != nil {
		return Result{}, err
	}
	r := Result{Start: Start{Dir: dir, Config: c}, least: o.Least}
	begin, rec := time.Now(), history.NewRecorder()
	started, err := r.run(ctx, o, rec)
	if cerr := o.Engine.Close(); err == nil && cerr != nil {
		r.Outcome.Notes = append(r.Outcome.Notes, "clean-up: "+plain.Cut(cerr.Error(), noteMax))
	}
	switch {
	case err != nil && started:
		err = fmt.Errorf("%w; the nodes' logs are in %s", err, filepath.Join(dir, report.LogsName))
	case err != nil:
		err = errors.Join(err, os.RemoveAll(dir))
	default:
		err = r.judge(o.Engine.Name(), rec, time.Since(begin))
	}
	return r, err
}

// judge judges the history and saves the report. If saving the history failed, it judges from memory, so a full disk does not cost the
// verdict.
func (r *Result) judge(engine string, rec *history.Recorder, wall time.Duration) error {
	p := r.params()
	events, logs := history.Open(r.Dir), nodelogs.Read(r.Dir, report.LogsName)
	if r.unsaved != nil {
		events, logs = rec.Events(), nil // the logs may be incomplete, too
	}
	summed, sum := events, func() string { return r.Outcome.SHA256 }
	if sum() == "" {
		summed, sum = history.Summed(events)
	}
	judged, err := check.Judge(p, summed, logs)
	if err != nil {
		return harness{fmt.Errorf("the storm has no verdict: judge %s: %w", r.Dir, err)}
	}
	m := r.meta(engine, wall, sum())
	m.Sums = report.LogSums(r.sums, logs)
	report.Explain(&judged, events)
	r.Report = report.New(m, p, judged)
	if err := errors.Join(r.unsaved, r.Report.Save(r.Dir)); err != nil {
		return harness{fmt.Errorf("%w: %w", ErrUnsaved, err)}
	}
	return nil
}

func (r *Result) meta(engine string, wall time.Duration, sum string) report.Meta {
	launcher := ""
	if r.Redis.Nodes != "" && r.Redis.Kind != RedisCompose { // someone else launched a running fleet
		launcher = report.LaunchContainers
	}
	return report.Meta{
		Engine: engine, Commit: Commit(), Redis: report.Redis{Kind: r.Redis.Kind, Version: r.Redis.Version},
		RedisCommands: r.Outcome.RedisCommands, Wall: wall, Virtual: r.Outcome.Virtual, SHA256: sum, Sums: r.sums,
		NodeCmd: r.Config.NodeCmd, Launcher: launcher,
	}
}

func (r *Result) prepare(engine string) error {
	if err := r.Plan.Save(filepath.Join(r.Dir, report.PlanName)); err != nil {
		return err
	}
	if err := r.Config.Save(filepath.Join(r.Dir, report.ScenarioName)); err != nil {
		return err
	}
	files, err := report.ReadFiles(r.Dir)
	if err != nil {
		return fmt.Errorf("what was saved of it could not be judged or played again: %w", err)
	}
	r.sums = files.Sums()
	return r.begin(engine, "")
}

// begin saves the judge's input for a run that dies, or ends without a verdict for the given reason.
func (r *Result) begin(engine, noVerdict string) error {
	p := params(r.Config, r.Plan, real.Outcome{Interrupted: true}, r.Redis.Kind)
	p.Least = r.least
	begun := report.New(r.meta(engine, 0, ""), p, check.Result{})
	begun.NoVerdict = noVerdict
	return begun.Save(r.Dir)
}

func (r *Result) params() check.Params {
	p := params(r.Config, r.Plan, r.Outcome.Outcome, r.Redis.Kind)
	p.Least = r.least
	return p
}

func params(c Config, plan fault.Plan, o real.Outcome, redis string) check.Params {
	plan.Seed = c.Seed // the run's seed, even of a plan written by hand
	topology, _ := c.servers()
	return check.Params{
		Topology: topology, Followed: c.replicated() && c.onVirtual(),
		System: c.System, Nodes: c.Nodes, Sessions: c.Sessions, Tuners: c.tuners(), Replicas: c.Replicas,
		Timings: c.Timings, Duration: c.Duration(), Speed: c.Speed,
		Plan: plan, Tap: o.Tap, Counted: redis != RedisCompose, Interrupted: o.Interrupted, Foreign: len(c.NodeCmd) > 0,
		Scenario: c.Name, Redis: redis, Criteria: c.Criteria,
	}
}

// Commit returns the source revision of the program, or "" if it was not built from a checkout.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return revision + changed
}

// run executes Run after the folder exists and before the engine closes. started reports whether nodes may have started.
func (r *Result) run(ctx context.Context, o Options, rec *history.Recorder) (started bool, err error) {
	if r.Redis, err = o.Engine.Open(ctx, r.Dir); err != nil {
		return false, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	if r.Plan, err = r.Config.Draw(o.Engine.Supports); err != nil {
		return false, err
	}
	if err := r.prepare(o.Engine.Name()); err != nil {
		return false, fmt.Errorf("%w: %w", ErrHarness, err)
	}
	if o.Started != nil {
		o.Started(r.Start)
	}
	progress := func(Progress) {}
	if o.Progress != nil {
		progress = challenged(o.Progress, r.params(), rec)
	}
	storm := Storm{Config: r.Config, Plan: r.Plan, Dir: r.Dir, Progress: progress}
	if !r.Config.onVirtual() { // virtual history is complete at once, or can be repeated from its seed
		if err := rec.Journal(r.Dir); err != nil {
			return false, fmt.Errorf("%w: %w", ErrHarness, err)
		}
		defer flushing(rec)()
	}
	if r.Outcome, err = o.Engine.Run(ctx, storm, rec); err != nil {
		// Put the engine's error first, because the recorded events may explain it.
		return !errors.Is(err, real.ErrProject), errors.Join(harness{fmt.Errorf("the storm has no verdict: %w", err)}, r.save(rec),
			r.begin(o.Engine.Name(), redisurl.Hide(err.Error())))
	}
	r.unsaved = errors.Join(r.Outcome.Unsaved, r.save(rec))
	return true, nil
}

func challenged(progress func(Progress), p check.Params, rec *history.Recorder) func(Progress) {
	watch, count := check.NewWatch(p), atomic.Int64{}
	rec.Hear(func(e *history.Event) {
		watch.See(*e)
		count.Store(int64(watch.Challenges()))
	})
	return func(p Progress) {
		p.Challenges = count.Load()
		progress(p)
	}
}

// save replaces the journal by the history in order of time.
func (r *Result) save(rec *history.Recorder) error {
	err := rec.Save(filepath.Join(r.Dir, history.FileName))
	if jerr := rec.EndJournal(err == nil); err != nil {
		return errors.Join(err, jerr)
	}
	return nil
}

// flushEvery bounds how many events are lost when the simulator is killed.
const flushEvery = time.Second

func flushing(rec *history.Recorder) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		host.Every(flushEvery, done, rec.FlushJournal)
	}()
	return func() { close(done); <-ended }
}

// newDir creates the run's folder, <scenario>-<seed>, with a suffix such as "-2" if that name is taken.
func newDir(reports string, c Config) (dir string, err error) {
	if reports == "" {
		reports = "reports"
	}
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return "", fmt.Errorf("%w: report folder: %w (flag --report)", ErrHarness, err)
	}
	base := filepath.Join(reports, c.Name+"-"+strconv.FormatUint(c.Seed, 10))
	for i := 1; ; i++ {
		dir = base
		if i > 1 {
			dir += "-" + strconv.Itoa(i)
		}
		if err = os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, report.LogsName), 0o755)
		}
		if err != nil {
			return "", fmt.Errorf("%w: report folder: %w (flag --report)", ErrHarness, err)
		}
		return dir, nil
	}
}

// LoadRun returns the configuration and plan of a saved run, to run it again. It refuses changed files with errors of packages report and
// history. It ignores the logs.
func LoadRun(dir string) (Config, error) {
	c, err := loadRun(dir)
	if err != nil {
		return Config{}, fmt.Errorf("saved run %s: %w", dir, err)
	}
	return c, nil
}

func loadRun(dir string) (Config, error) {
	r, err := report.Load(dir)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	files, err := report.ReadFiles(dir)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s, err := load(filepath.Join(dir, report.ScenarioName), func(string) ([]byte, error) { return files.Scenario(), nil })
	if err != nil {
		return Config{}, err
	}
	c, err := s.Resolve()
	if err != nil {
		return Config{}, err
	}
	plan, err := files.Plan()
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := plan.Validate(c.limits()); err != nil {
		return Config{}, fmt.Errorf("%w: %s: %w", ErrInvalid, report.PlanName, err)
	}
	c.Plan = &plan
	if err := r.Matches(files); err != nil || r.Stats.HistorySHA256 == "" { // the run did not end
		return c, err
	}
	return c, r.Intact(dir)
}

// Retargeted returns the run with its faults of owners replaced by faults of the nodes that they hit, at those times, in the saved run in
// dir. n is their number. An error concerns the history's file or the resulting plan.
func (c Config) Retargeted(dir string) (again Config, n int, err error) {
	p := *c.Plan
	p.Faults = slices.Clone(p.Faults)
	var storm int64
	for e, err := range history.Open(dir) {
		switch {
		case err != nil:
			return Config{}, 0, fmt.Errorf("saved run %s: %w", dir, err)
		case e.Kind == history.Phase && e.Reason == "storm":
			storm = e.T
		case e.Kind == history.FaultStart && e.N >= 0 && e.N < int64(len(p.Faults)) && e.Node != "" && c.Plan.Faults[e.N].Aims():
			f := &p.Faults[e.N]
			if f.Target != fault.Same {
				f.Target = fault.OwnerTarget(e.Node)
			}
			f.At = min(max(f.At, time.Duration(e.T-storm).Truncate(time.Millisecond)), c.Storm)
			n++
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b fault.Fault) int { return cmp.Compare(a.At, b.At) })
	c.Plan = &p
	if err := p.Validate(c.limits()); err != nil {
		return Config{}, 0, fmt.Errorf("%w: saved run %s: whom its faults hit: %w", ErrInvalid, dir, err)
	}
	return c, n, nil
}

// On returns the configuration for another engine. It drops the virtual engine's settings, or returns an error if the run needs them.
func (c Config) On(engine string) (Config, error) {
	c.Engine = engine
	if !c.onVirtual() {
		c.Virtual = Virtual{}
	}
	if err := c.checkEngine(); err != nil {
		return Config{}, err
	}
	if err := c.checkCounts(); err != nil {
		return Config{}, err
	}
	if c.Plan == nil {
		return c, nil
	}
	for i, f := range c.Plan.Faults {
		if err := f.Kind.AvailableOn(c.onVirtual()); err != nil {
			return Config{}, wrong(fmt.Sprintf("plan[%d]", i), "%w", err)
		}
	}
	return c, nil
}
