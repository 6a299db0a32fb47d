package explore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

func crashes() sim.Scenario {
	return sim.Scenario{
		Faults: []fault.Kind{fault.Crash}, Criteria: []string{"G1", "G2", "G3"}, Nodes: 3, Sessions: 3,
		Timings: sim.Timings{TTL: 3 * time.Second, Discovery: time.Second, Poll: time.Second, Serve: time.Millisecond},
		Fixed:   sim.Fixed{Duration: 20 * time.Second},
	}
}

// An exploration that was interrupted repeatedly covers in the end what an uninterrupted one covers.
func TestExploreResumes(t *testing.T) {
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{3, 42}, Shard: Shard{1, 2}, Parallel: 2, Resume: true, Reports: t.TempDir(),
	}
	whole := x
	whole.Reports = t.TempDir()
	want, err := Run(t.Context(), whole)
	if err != nil || want.Verdict != check.Pass || want.Done != 20 || want.Repeated != 0 {
		t.Fatalf("%+v, %v", want, err)
	}
	interrupted := 0
	var got Coverage
	for range 40 {
		ctx, stop := context.WithCancel(t.Context())
		x.Progress = func(Progress) { stop() } // at the first seed that ends
		got, err = Run(ctx, x)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if got.Done == got.Total {
			break
		}
		interrupted++
		if got.Verdict != check.Unknown {
			t.Fatalf("an incomplete exploration is %s", got.Verdict)
		}
	}
	if interrupted == 0 {
		t.Error("it was never interrupted")
	}
	if !reflect.DeepEqual(got.Guarantees, want.Guarantees) || got.Events != want.Events || got.Next != want.Next ||
		got.Hash != want.Hash || got.Verdict != check.Pass {
		t.Errorf("in pieces %+v, at once %+v", got, want)
	}
}

// A seed that breaks a guarantee stops the exploration; seeds that end meanwhile count. Its folder stays and has the same history.
func TestExploreKeepsWhatBreaks(t *testing.T) {
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 100}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(), Bend: virtualtest.ConstantFence,
	}
	c, err := Run(t.Context(), x)
	if err != nil || c.Verdict != check.Fail || len(c.Failed) == 0 || c.Done >= c.Total {
		t.Fatalf("%d of %d seeds, %s: %+v, %v", c.Done, c.Total, c.Verdict, c.Failed, err)
	}
	f := c.Failed[0]
	if !slices.Contains(f.Broke, "G3") || slices.Contains(f.Broke, "determinism") {
		t.Errorf("broke %v", f.Broke)
	}
	sum := history.NewSum()
	for e, err := range history.Open(f.Dir) {
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(&e)
	}
	if sum.String() != f.SHA256 {
		t.Errorf("the saved history has the sum %s, judged was %s", sum, f.SHA256)
	}
}

// A failed seed is reported even if there is no room for its folder or the state.
func TestExploreTellsWhatItCannotSave(t *testing.T) {
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 100}, Shard: Shard{1, 1}, Parallel: 1, Reports: filepath.Join(t.TempDir(), "reports"),
		KeepGoing: true,
	}
	var first sync.Once
	x.Bend = func(v *virtual.Config) {
		virtualtest.ConstantFence(v)
		first.Do(func() {
			if err := errors.Join(os.RemoveAll(x.Reports), os.WriteFile(x.Reports, nil, 0o600)); err != nil {
				t.Error(err)
			}
		})
	}
	c, err := Run(t.Context(), x)
	if !errors.Is(err, sim.ErrHarness) {
		t.Errorf("what could not be saved: %v", err)
	}
	if c.Verdict != check.Fail || len(c.Failed) != 1 || !slices.Contains(c.Failed[0].Broke, "G3") || c.Failed[0].Dir != "" {
		t.Fatalf("%d of %d seeds, %s: %+v", c.Done, c.Total, c.Verdict, c.Failed)
	}
	if c.Done == c.Total {
		t.Error("it went on without a folder")
	}
}

// If an interrupt cuts off saving a seed, the seed counts as not run and leaves no folder.
func TestExploreLeavesNoFolderOfASeedCutOff(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 100}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(),
	}
	folders := func() []string {
		dirs, err := filepath.Glob(filepath.Join(x.Reports, "swarm-*"))
		if err != nil {
			t.Fatal(err)
		}
		return dirs
	}
	x.Bend = func(v *virtual.Config) {
		virtualtest.ConstantFence(v)
		if len(folders()) > 0 { // this run is being saved
			stop()
		}
	}
	c, err := Run(ctx, x)
	if err != nil || ctx.Err() == nil || c.Verdict != check.Unknown || len(c.Failed) > 0 {
		t.Fatalf("%d of %d seeds, %s: %+v, %v", c.Done, c.Total, c.Verdict, c.Failed, err)
	}
	if left := folders(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A new exploration in the folder of an incomplete one keeps the coverage of the old one.
func TestExploreKeepsAnEarlierState(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 20}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(),
		Progress: func(Progress) { stop() },
	}
	c, err := Run(ctx, x)
	if err != nil || c.Done == 0 || c.Done == c.Total {
		t.Fatalf("%+v, %v; want it to be cut off", c, err)
	}
	read := func() string {
		text, err := os.ReadFile(c.File)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read()
	refused := func(why string, says ...string) {
		t.Helper()
		_, err := Run(t.Context(), x)
		if !errors.Is(err, ErrState) || errors.Is(err, sim.ErrInvalid) {
			t.Fatalf("%s: %v, want ErrState", why, err)
		}
		for _, want := range says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", why, err, want)
			}
		}
	}
	refused("unfinished", "--resume", "--report", c.File)
	x.Resume = true
	x.Scenario.Nodes++
	refused("other flags", "now given is", "--report")
	if read() != before {
		t.Error("a refused exploration changed the state")
	}
	if err := os.Truncate(c.File, 100); err != nil {
		t.Fatal(err)
	}
	refused("cut off", "cannot be read", "--report")
	x.Resume = false
	refused("cut off, begun anew", "cannot be read", "--report")
}

// Two explorations at once do not write the same state.
func TestExploreIsAloneInItsState(t *testing.T) {
	x := Exploration{Scenario: crashes(), Seeds: SeedRange{1, 20}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir()}
	second := x
	told := false
	x.Progress = func(Progress) {
		for _, second.Resume = range []bool{false, true} {
			if _, err := Run(t.Context(), second); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "another simulate") {
				t.Errorf("resume %v: %v, want ErrState", second.Resume, err)
			}
		}
		told = true
	}
	if c, err := Run(t.Context(), x); err != nil || c.Done != c.Total || !told {
		t.Errorf("%+v, %v, %v", c, err, told)
	}
	if left, err := filepath.Glob(filepath.Join(x.Reports, "*")); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v; want the state alone", left, err)
	}
}

// An exploration that stopped at a failure has ended. With the same flags, a new one begins.
func TestExploreBeginsAnewAfterAFailure(t *testing.T) {
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 100}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(), Bend: virtualtest.ConstantFence,
	}
	for range 2 {
		c, err := Run(t.Context(), x)
		if err != nil || len(c.Failed) != 1 || c.Failed[0].Seed != c.Done {
			t.Fatalf("%d of %d seeds, failed %+v, %v; want it to stop at the first failure", c.Done, c.Total, c.Failed, err)
		}
	}
	x.KeepGoing = true
	if _, err := Run(t.Context(), x); !errors.Is(err, ErrState) {
		t.Errorf("not to stop at failures: %v, want ErrState", err)
	}
}

// An exploration judges the logs of virtual instances (G12), and finds a missing or wrong entry.
func TestExploreJudgesLogs(t *testing.T) {
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 3}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(), KeepGoing: true,
	}
	x.Scenario.Criteria = []string{"G12"}
	x.Scenario.Fixed.Duration = 2 * time.Minute // more entries than a killed process may lack
	c, err := Run(t.Context(), x)
	if err != nil || c.Verdict != check.Pass || c.Guarantees[11].Exercised != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	for name, bad := range map[string]func(e *virtual.LogEntry) bool{
		"not logged": func(e *virtual.LogEntry) bool { return e.Fields[0].Text != "renewed" },
		"no fence": func(e *virtual.LogEntry) bool {
			e.Fields = slices.DeleteFunc(e.Fields, func(f logentry.Field) bool { return f.Key == "fence" })
			return true
		},
	} {
		x.Reports = t.TempDir()
		x.Bend = func(v *virtual.Config) {
			log := v.Log
			v.Log = func(e *virtual.LogEntry) {
				if bad(e) && log != nil {
					log(e)
				}
			}
		}
		c, err := Run(t.Context(), x)
		if err != nil || len(c.Failed) == 0 || !slices.Equal(c.Failed[0].Broke, []string{"G12"}) {
			t.Fatalf("%s: %+v, %v", name, c.Failed, err)
		}
		again, _, err := report.Judge(c.Failed[0].Dir) // from the log files
		if v := again.Guarantees[11]; err != nil || v.Verdict != check.Fail {
			t.Errorf("%s: the saved run's G12 is %s: %s, %v", name, v.Verdict, v.Detail, err)
		}
	}
}

// A panic of an instance is a finding, not the end of the exploration.
func TestExploreSurvivesPanics(t *testing.T) {
	x := Exploration{
		Scenario: crashes(), Seeds: SeedRange{1, 3}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir(), KeepGoing: true,
		Bend: func(v *virtual.Config) { v.New = func(core.Config) virtual.Machine { panic("broken") } },
	}
	c, err := Run(t.Context(), x)
	if err != nil || len(c.Failed) != 3 || c.Failed[0].Broke[0] != "panic" {
		t.Errorf("%+v, %v", c.Failed, err)
	}
}

func TestExploreRefuses(t *testing.T) {
	good := Exploration{Seeds: SeedRange{1, 4}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir()}
	for name, bend := range map[string]func(*Exploration){
		"empty":    func(x *Exploration) { x.Seeds = SeedRange{} },
		"reversed": func(x *Exploration) { x.Seeds = SeedRange{5, 4} },
		"shard":    func(x *Exploration) { x.Shard = Shard{2, 1} },
		"parallel": func(x *Exploration) { x.Parallel = 0 },
		"nodes":    func(x *Exploration) { x.Scenario.Nodes = -1 },
	} {
		x := good
		bend(&x)
		if _, err := Run(t.Context(), x); !errors.Is(err, sim.ErrInvalid) {
			t.Errorf("%s: %v, want sim.ErrInvalid", name, err)
		}
	}
}

// In one seed of a hundred the scripts also run, and a difference fails the seed.
func TestExploreRunsTheScripts(t *testing.T) {
	x := Exploration{Scenario: crashes(), Seeds: SeedRange{49, 50}, Shard: Shard{1, 1}, Parallel: 1, Reports: t.TempDir()}
	got, err := Run(t.Context(), x)
	if err != nil || got.Interpreted != 1 || got.Repeated != 0 || len(got.Failed) != 0 {
		t.Fatalf("%+v, %v; want one of two seeds to be run by the scripts", got, err)
	}
	runs := 0
	x.Bend = func(v *virtual.Config) {
		if runs++; runs == 3 { // the second run of seed 50
			v.Serve++
		}
	}
	got, err = Run(t.Context(), x)
	if err != nil || len(got.Failed) != 1 || !slices.Equal(got.Failed[0].Broke, []string{"scripts"}) {
		t.Fatalf("%+v, %v; want seed 50 to fail by its scripts", got, err)
	}
}
