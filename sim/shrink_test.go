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
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// linesMax is the limit of a short scenario file.
const linesMax = 30

// A storm of many faults shrinks to those that break the lease. The result is a short file that gives the same history, and a figure.
func TestShrink(t *testing.T) {
	for _, m := range []struct {
		breaks string
		bend   Breaker
	}{
		{"G3", virtualtest.ConstantFence},
		{"G4", virtualtest.DeafToFailure},
	} {
		t.Run(m.breaks, func(t *testing.T) {
			s := shrunkFirst(t, m.breaks, m.bend)
			if s.To.Faults > 3 || s.To.Nodes > 2 || s.To.Sessions > 2 || s.To.Duration >= s.From.Duration {
				t.Errorf("%s shrunk from %v to %v", s.Guarantee, s.From, s.To)
			}
			r, err := s.Save(t.Context(), t.TempDir(), m.bend)
			if err != nil || r.Report.Verdict != check.Fail {
				t.Fatalf("%s, %v", r.Report.Verdict, err)
			}
			sameAgain(t, r, m.bend)
		})
	}
}

// shrunkFirst shrinks the first drawn storm of at least ten faults that breaks the guarantee.
func shrunkFirst(t *testing.T, guarantee string, bend Breaker) Shrunk {
	t.Helper()
	for seed := uint64(17); seed < 60; seed++ {
		c, plan, err := Scenario{Nodes: 8, Sessions: 30}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Faults) < 10 {
			continue
		}
		c.Plan = &plan
		s, err := Shrink(t.Context(), c, guarantee, bend, nil)
		if errors.Is(err, ErrNothingBroke) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Fatal("no seed breaks it")
	return Shrunk{}
}

// sameAgain compares the run of the short scenario file with the original run.
func sameAgain(t *testing.T, r Result, bend Breaker) {
	t.Helper()
	file := filepath.Join(r.Dir, ShrunkFile)
	text, err := os.ReadFile(file)
	if lines := strings.Count(string(text), "\n"); err != nil || lines > linesMax {
		t.Errorf("the scenario has %d lines, %v:\n%s", lines, err, text)
	}
	loaded, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	again := resolved(t, loaded)
	if again.Plan == nil {
		t.Fatalf("the scenario has no plan:\n%s", text)
	}
	sum := history.NewSum()
	if _, err := runVirtual(t.Context(), again, *again.Plan, bend, func(e history.Event) { sum.Add(&e) }, nil); err != nil {
		t.Fatal(err)
	}
	if sum.String() != r.Outcome.SHA256 {
		t.Errorf("the scenario file gives another run than it was made of:\n%s", text)
	}
}

// If a shrink is interrupted, the smallest run so far can be saved. Without a smaller run, there is nothing to save.
func TestShrinkInterrupted(t *testing.T) {
	c, plan, err := Scenario{Nodes: 8, Sessions: 30, Faults: []fault.Kind{fault.Crash}}.Swarm(17)
	if err != nil {
		t.Fatal(err)
	}
	c.Plan = &plan
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s, err := Shrink(ctx, c, "G3", virtualtest.ConstantFence, func(Size) { stop() })
	if err != nil || !s.Cut || s.To == s.From {
		t.Fatalf("cut %v, from %v to %v, %v", s.Cut, s.From, s.To, err)
	}
	if r, err := s.Save(t.Context(), t.TempDir(), virtualtest.ConstantFence); err != nil || r.Report.Verdict != check.Fail {
		t.Errorf("%s, %v", r.Report.Verdict, err)
	}
	if _, err := Shrink(ctx, c, "G3", virtualtest.ConstantFence, nil); !errors.Is(err, ErrInterrupted) {
		t.Errorf("%v, want ErrInterrupted", err)
	}
}

// A run that breaks nothing is reported, not shrunk.
func TestShrinkOfASoundRun(t *testing.T) {
	c := resolved(t, Scenario{Engine: EngineVirtual, Nodes: 2, Sessions: 2, Seed: 5, Plan: []fault.Fault{}})
	if _, err := Shrink(t.Context(), c, "", nil, nil); !errors.Is(err, ErrNothingBroke) {
		t.Errorf("%v, want ErrNothingBroke", err)
	}
}

// The smallest run for the real engine is that of virtual time. Its amounts are divided by the speed once, as its timings are.
func TestShrunkAmountsOnTheRealEngine(t *testing.T) {
	c := resolved(t, Scenario{
		Engine: EngineVirtual, Nodes: 2, Sessions: 2, Seed: 5,
		Plan: []fault.Fault{{At: 5 * time.Second, Kind: fault.Latency, Target: "node-1", For: 10 * time.Second, Ms: 1000, Jitter: 500}},
	})
	real, err := Shrunk{Config: c}.Real()
	if err != nil {
		t.Fatal(err)
	}
	if f := real.Plan.Faults[0]; real.TTL != c.TTL/10 || f.Ms != 100 || f.Jitter != 50 || f.At != 500*time.Millisecond {
		t.Errorf("a TTL of %v, where it was %v, and %+v", real.TTL, c.TTL, f)
	}
}

func TestRenumber(t *testing.T) {
	at := func(k fault.Kind, i int) fault.Fault { return fault.Fault{Kind: k, Target: fault.NodeTarget(i)} }
	in := []fault.Fault{at(fault.Crash, 7), at(fault.Join, 11), {Kind: fault.RedisFlush}, at(fault.Cut, 3), at(fault.Freeze, 7)}
	var got []string
	for _, f := range renumber(in, 10, 2) {
		got = append(got, f.Target)
	}
	if s := strings.Join(got, " "); s != "node-1 node-3  node-2 node-1" {
		t.Errorf("got %q", s)
	}
}
