package engines

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

func TestMain(m *testing.M) {
	real.ReaperMain()
	os.Exit(m.Run())
}

// all runs every plan; without it the first one only, so that a plain go test ./... does not take minutes.
var all = flag.Bool("all", false, "run every plan on both engines, not only the first")

const (
	ttl     = 30 * time.Second // at speed 1, as all durations here
	settled = 40 * time.Second // after the cold start
	atOnce  = 3                // runs on the real engine at a time
)

// plans are one kind of change each, and one storm drawn from a seed.
var plans = []struct {
	name   string
	faults []fault.Fault
}{
	{"crash", []fault.Fault{{At: settled, Kind: fault.Crash, Target: "node-1"}}},
	{"restart", []fault.Fault{{At: settled, Kind: fault.Crash, Target: "node-2", For: 20 * time.Second}}},
	{"leave-join", []fault.Fault{
		{At: settled, Kind: fault.Leave, Target: "node-1"},
		{At: settled + 40*time.Second, Kind: fault.Join, Target: "node-4"},
	}},
	{"blackhole", []fault.Fault{{At: settled, Kind: fault.BlackHole, Target: "node-1", For: 2 * ttl}}},
	{"cut", []fault.Fault{{At: settled, Kind: fault.Cut, Target: "node-3", For: 2 * ttl}}},
	{"replies-lost", []fault.Fault{{At: settled, Kind: fault.RepliesLost, Target: "node-2", For: 2 * ttl}}},
	{"freeze", []fault.Fault{{At: settled, Kind: fault.Freeze, Target: "node-1", For: 2 * ttl}}},
	{"wipe", []fault.Fault{{At: settled, Kind: fault.RedisWipe, For: 10 * time.Second}}},
	{"flush-crash", []fault.Fault{
		{At: settled, Kind: fault.RedisFlush},
		{At: settled + 50*time.Second, Kind: fault.Crash, Target: "node-2"},
	}},
	{"drawn", nil},
}

// One plan gives the same verdicts on both engines; over all plans, failovers, gaps and moves lie alike.
func TestEnginesAgree(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("no redis-server in PATH")
	}
	node := filepath.Join(t.TempDir(), "node")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", node, "../../cmd/node").CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, out)
	}
	run := plans
	if !*all {
		run = run[:1]
	}
	pairs := make([]pair, len(run))
	var runs sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, p := range run {
		runs.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			pairs[i] = both(t, node, p.name, p.faults)
		})
	}
	runs.Wait()
	if t.Failed() {
		return
	}
	for _, p := range pairs {
		p.sameVerdicts(t)
	}
	for _, f := range figures {
		f.lieAlike(t, pairs)
	}
}

// pair is one plan on both engines.
type pair struct {
	name          string
	real, virtual report.Report
	dir           string // of the real run
}

func both(t *testing.T, node, name string, faults []fault.Fault) pair {
	p := pair{name: name}
	c, err := sim.Scenario{
		Name: name, Nodes: 3, Sessions: 12, Seed: 7, Duration: 220 * time.Second, Speed: 10, Plan: faults,
	}.Resolve()
	if err != nil {
		t.Error(err)
		return p
	}
	r, err := sim.Run(t.Context(), c, sim.Options{
		Engine: sim.NewReal(sim.RedisChoice{Kind: "server"}, []string{node}), Reports: filepath.Join("..", "..", "reports", "engines"),
	})
	if err != nil {
		t.Errorf("%s on the real engine: %v", name, err)
		return p
	}
	c.Plan = &r.Plan // also where it was drawn: what one engine cannot strike, the other must not
	if c, err = c.On(sim.EngineVirtual); err != nil {
		t.Error(err)
		return p
	}
	v, err := sim.Run(t.Context(), c, sim.Options{Engine: sim.NewVirtual(nil), Reports: t.TempDir()})
	if err != nil {
		t.Errorf("%s in virtual time: %v", name, err)
		return p
	}
	p.real, p.virtual, p.dir = r.Report, v.Report, r.Dir
	return p
}

// sameVerdicts wants what decides the real run to come out alike in virtual time, and no other guarantee to fail in one
// engine only. A guarantee that the plan cannot exercise may be exercised by chance in one of them.
func (p pair) sameVerdicts(t *testing.T) {
	for i, r := range p.real.Guarantees {
		v := p.virtual.Guarantees[i]
		decides := slices.Contains(check.Decides(p.real.Params()), r.ID) && slices.Contains(check.Decides(p.virtual.Params()), r.ID)
		if r.Verdict != v.Verdict && (decides || r.Verdict == check.Fail || v.Verdict == check.Fail) {
			t.Errorf("%s: %s is %s on the real engine (%s; %s), %s in virtual time (%s)", p.name, r.ID, r.Verdict, r.Detail,
				p.dir, v.Verdict, v.Detail)
		}
	}
}

// figure is a number of a run.
type figure struct {
	name   string
	of     func(report.Report) int64
	factor float64 // by which the medians may differ
	slack  int64   // and by so much in any case: what a loaded machine adds
}

func value(id string) func(report.Report) int64 {
	return func(r report.Report) int64 {
		for _, v := range r.Guarantees {
			if v.ID == id && v.Exercised > 0 {
				return v.Value
			}
		}
		return 0
	}
}

var figures = []figure{
	{"failover (G5), ms", value("G5"), 1.5, 250},
	{"longest gap between polls (G8), ms", value("G8"), 1.5, 250},
	{"moves: leases acquired", func(r report.Report) int64 { return r.Stats.Acquires }, 1.5, 3},
}

// lieAlike compares the medians over the plans in which both engines have the figure.
func (f figure) lieAlike(t *testing.T, pairs []pair) {
	var real, virtual []int64
	var table strings.Builder
	for _, p := range pairs {
		r, v := f.of(p.real), f.of(p.virtual)
		if r != 0 && v != 0 {
			real, virtual = append(real, r), append(virtual, v)
		}
		fmt.Fprintf(&table, "  %s %d/%d", p.name, r, v)
	}
	if len(real) == 0 {
		t.Errorf("%s: no plan has it on both engines:%s", f.name, table.String())
		return
	}
	slices.Sort(real)
	slices.Sort(virtual)
	r, v := real[len(real)/2], virtual[len(virtual)/2]
	low, high := min(r, v), max(r, v)
	t.Logf("%s, real/virtual: median %d/%d;%s", f.name, r, v, table.String())
	if float64(high) > f.factor*float64(low)+float64(f.slack) {
		t.Errorf("%s: medians %d on the real engine and %d in virtual time differ by more than %.1f ×", f.name, r, v, f.factor)
	}
}
