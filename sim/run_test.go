package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

// fake is an engine that starts nothing: it records two events and returns.
type fake struct {
	openErr, runErr error
	unsupported     fault.Kind
	closed          int
	storm           Storm
	during          func(dir string) // called during the run; nil: nothing is
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Open(context.Context, string) (real.Info, error) {
	return real.Info{Kind: "fake"}, f.openErr
}

func (f *fake) Supports(k fault.Kind) error {
	if k == f.unsupported {
		return errors.New("the fake cannot")
	}
	return nil
}

func (f *fake) Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error) {
	f.storm = s
	if f.during != nil {
		f.during(s.Dir)
	}
	rec.Add(history.Event{T: 0, Kind: history.Phase, Reason: "start"})
	rec.Add(history.Event{T: int64(s.Duration()), Kind: history.Phase, Reason: "end"})
	s.Progress(Progress{Progress: real.Progress{Elapsed: s.Duration(), Total: s.Duration(), Phase: "calm"}})
	return Outcome{Outcome: real.Outcome{Interrupted: ctx.Err() != nil}}, f.runErr
}

func (f *fake) Close() error { f.closed++; return nil }

func resolved(t *testing.T, s Scenario) Config {
	t.Helper()
	c, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRunSavesEverything(t *testing.T) {
	reports := filepath.Join(t.TempDir(), "made", "on demand")
	c := resolved(t, Scenario{Seed: 42})
	var started []Start
	progress := 0
	f := &fake{}
	saved, err := Run(t.Context(), c, Options{
		Engine: f, Reports: reports,
		Started:  func(s Start) { started = append(started, s) },
		Progress: func(Progress) { progress++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(reports, "storm-42"); saved.Dir != want {
		t.Errorf("saved in %s, want %s", saved.Dir, want)
	}
	for _, name := range []string{history.FileName, report.ScenarioName, report.PlanName, report.FileName} {
		if st, err := os.Stat(filepath.Join(saved.Dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", name, err)
		}
	}
	if len(started) != 1 || len(started[0].Plan.Faults) == 0 || progress != 1 || f.closed != 1 {
		t.Errorf("started %d times, progress %d, closed %d", len(started), progress, f.closed)
	}
	again, err := LoadRun(saved.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Plan.Faults) != len(f.storm.Plan.Faults) || again.Duration() != f.storm.Duration() {
		t.Errorf("the saved run is another one: %+v", again)
	}
}

func TestRunNeverSharesAFolder(t *testing.T) {
	reports := t.TempDir()
	c := resolved(t, Scenario{Seed: 7})
	seen := map[string]bool{}
	for range 3 {
		saved, err := Run(t.Context(), c, Options{Engine: &fake{}, Reports: reports})
		if err != nil || seen[saved.Dir] {
			t.Fatalf("%s was used before, or %v", saved.Dir, err)
		}
		seen[saved.Dir] = true
	}
	if !seen[filepath.Join(reports, "storm-7-3")] {
		t.Errorf("got %v, want the third to be storm-7-3", seen)
	}
}

func TestRunFails(t *testing.T) {
	boom := errors.New("boom: dial redis://me:canary@127.0.0.1:1")
	change := func(dir string) {
		name := filepath.Join(dir, report.PlanName)
		plan, err := os.ReadFile(name)
		if err := errors.Join(err, os.WriteFile(name, append(plan, '\n'), 0o600)); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		engine *fake
		is     error
		left   bool // the folder stays, with the nodes' logs
	}{
		"no Redis":           {&fake{openErr: boom}, ErrHarness, false},
		"a fault it has not": {&fake{unsupported: fault.RedisWipe}, ErrInvalid, false},
		"nodes do not start": {&fake{runErr: boom, during: change}, ErrHarness, true},
	} {
		t.Run(name, func(t *testing.T) {
			reports := t.TempDir()
			cfg := resolved(t, Scenario{Seed: 1, Faults: []fault.Kind{fault.RedisWipe}})
			_, err := Run(t.Context(), cfg, Options{Engine: c.engine, Reports: reports})
			if !errors.Is(err, c.is) || c.left == strings.Contains(err.Error(), "did not run") && errors.Is(err, ErrHarness) {
				t.Errorf("got %v, want %v, and it says that it did not run only if it did not", err, c.is)
			}
			entries, rerr := os.ReadDir(reports)
			if rerr != nil || (len(entries) > 0) != c.left {
				t.Errorf("left behind: %v, %v", entries, rerr)
			}
			for _, entry := range entries {
				folder := filepath.Join(reports, entry.Name())
				if _, err := LoadRun(folder); !errors.Is(err, report.ErrDamaged) {
					t.Errorf("loaded, though its plan was changed while it ran: %v", err)
				}
				if _, _, err := report.Judge(folder); !errors.Is(err, report.ErrNoVerdict) ||
					report.Readable(err) || !strings.Contains(err.Error(), "boom") || strings.Contains(err.Error(), "canary") {
					t.Errorf("judged again: %v", err)
				}
			}
			if c.engine.closed != 1 {
				t.Errorf("closed %d times", c.engine.closed)
			}
		})
	}
}

func TestRunRefusesAFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	_, err := Run(t.Context(), resolved(t, Scenario{}), Options{Engine: f, Reports: filepath.Join(file, "x")})
	if !errors.Is(err, ErrHarness) || !strings.Contains(err.Error(), "--report") {
		t.Errorf("got %v", err)
	}
	if f.storm.Nodes != 0 {
		t.Error("the storm ran nevertheless")
	}
}

func TestInterruptedRunIsSaved(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	saved, err := Run(ctx, resolved(t, Scenario{}), Options{Engine: &fake{}, Reports: t.TempDir()})
	if err != nil || !saved.Outcome.Interrupted {
		t.Fatalf("got %+v, %v", saved.Outcome, err)
	}
	var last time.Duration
	for e, err := range history.Open(saved.Dir) {
		if err != nil {
			t.Fatal(err)
		}
		last = time.Duration(e.T)
	}
	if last != saved.Config.Duration() {
		t.Errorf("the history ends at %v", last)
	}
}

func TestLoadRunRefuses(t *testing.T) {
	reports := t.TempDir()
	saved, err := Run(t.Context(), resolved(t, Scenario{}), Options{Engine: &fake{}, Reports: reports})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRun(reports); !errors.Is(err, ErrInvalid) {
		t.Errorf("a folder without a run: got %v", err)
	}
	if err := os.Truncate(filepath.Join(saved.Dir, report.PlanName), 20); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRun(saved.Dir); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), report.PlanName) {
		t.Errorf("a plan that is cut off: got %v", err)
	}
}

// fullDisk is an engine after whose run nothing can be written.
type fullDisk struct{ Engine }

func (e fullDisk) Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error) {
	out, err := e.Engine.Run(ctx, s, rec)
	return out, errors.Join(err, os.RemoveAll(s.Dir))
}

// A history that cannot be saved is still judged.
func TestRunJudgesWhatItCannotSave(t *testing.T) {
	c := resolved(t, Scenario{
		Engine: EngineVirtual, Nodes: 2, Sessions: 2, Seed: 3, Faults: []fault.Kind{fault.Crash}, Criteria: []string{"G1", "G3"},
	})
	r, err := Run(t.Context(), c, Options{Engine: fullDisk{NewVirtual(nil)}, Reports: t.TempDir()})
	if !errors.Is(err, ErrUnsaved) || !errors.Is(err, ErrHarness) || strings.Contains(err.Error(), "did not run") {
		t.Errorf("%v, want ErrUnsaved", err)
	}
	if r.Report.Verdict != check.Pass {
		t.Errorf("the verdict is %q", r.Report.Verdict)
	}
}

// cutLogs is an engine that briefly had no room for a node's log.
type cutLogs struct{ Engine }

var errCut = errors.New("the log of a node was cut off")

func (e cutLogs) Run(ctx context.Context, s Storm, rec *history.Recorder) (Outcome, error) {
	out, err := e.Engine.Run(ctx, s, rec)
	out.Unsaved = errCut
	return out, err
}

// Incomplete logs do not count against the nodes.
func TestRunDoesNotJudgeLogsThatWereCut(t *testing.T) {
	c := resolved(t, Scenario{
		Engine: EngineVirtual, Nodes: 2, Sessions: 2, Seed: 3, Faults: []fault.Kind{fault.Crash}, Criteria: []string{"G1", "G3"},
	})
	r, err := Run(t.Context(), c, Options{Engine: cutLogs{NewVirtual(nil)}, Reports: t.TempDir()})
	if !errors.Is(err, ErrUnsaved) || !errors.Is(err, errCut) {
		t.Errorf("%v, want what was cut off", err)
	}
	for _, v := range r.Report.Guarantees {
		if v.ID == "G12" && v.Verdict != check.Unknown {
			t.Errorf("G12 is %s", v.Verdict)
		}
	}
}

// A saved run names the targets and times of its faults of owners. A run made from it hits the same targets.
func TestSameTargetsAgain(t *testing.T) {
	second := time.Second
	c := resolved(t, Scenario{Engine: EngineVirtual, Nodes: 3, Sessions: 6, Seed: 9, Fixed: Fixed{Duration: 2 * time.Minute}, Plan: []fault.Fault{
		{At: 5 * second, Kind: fault.Freeze, Target: "owner:session-1", For: 2 * second},
		{At: 6 * second, Kind: fault.Cut, Target: "owner:session-1", For: second}, // waits for the end of the freeze
		{At: 6500 * time.Millisecond, Kind: fault.BlackHole, Target: "node-1", For: second},
		{At: 8500 * time.Millisecond, Kind: fault.Latency, Target: fault.Same, For: second, Ms: 1},
	}})
	if c.Plan == nil {
		t.Fatal("no plan")
	}
	saved, err := Run(t.Context(), c, Options{Engine: NewVirtual(nil), Reports: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadRun(saved.Dir)
	if err != nil {
		t.Fatal(err)
	}
	again, n, err := loaded.Retargeted(saved.Dir)
	if err != nil || n != 3 {
		t.Fatalf("%d hit, %v, want 3", n, err)
	}
	was := targetsOf(t, saved.Dir)
	if was[0] == "" || was[0] != was[1] || was[3] != was[1] {
		t.Fatalf("hit were %v, want the same owner three times", was)
	}
	f := again.Plan.Faults
	if f[0].Target != fault.OwnerTarget(was[0]) || f[2].Target != fault.OwnerTarget(was[1]) || f[2].Kind != fault.Cut || f[2].At < 7*second ||
		f[1].Target != "node-1" || f[3].Target != fault.Same {
		t.Errorf("hit again are %+v, want %v, and the cut when it hit", f, was)
	}
	if loaded.Plan.Faults[0].Target != "owner:session-1" {
		t.Error("the saved run's own plan was changed")
	}
}

// targetsOf returns the targets of a saved run's faults, by their number in the plan.
func targetsOf(t *testing.T, dir string) map[int64]string {
	t.Helper()
	targets := map[int64]string{}
	for e, err := range history.Open(dir) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == history.FaultStart {
			targets[e.N] = e.Node
		}
	}
	return targets
}
