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
	"github.com/leasestorm/leasestorm/sim/criteria"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

func TestMain(m *testing.M) {
	real.ReaperMain()
	os.Exit(m.Run())
}

// all plays every plan. Without it, only the first is played, so that a plain go test ./... does not take minutes.
var all = flag.Bool("all", false, "run every plan on both engines, not only the first")

const (
	ttl     = 30 * time.Second // at speed 1, as all durations here
	settled = 40 * time.Second // after the cold start
	atOnce  = 3                // runs on the real engine at a time
	again   = 2                // times that a plan is played again because the host stalled
)

type plan struct {
	name   string
	faults []fault.Fault
}

// plans have one kind of change each, except for one storm drawn from a seed.
var plans = []plan{
	{"crash", []fault.Fault{{At: settled, Kind: fault.Crash, Target: fault.Owner}}},
	{"restart", []fault.Fault{{At: settled, Kind: fault.Crash, Target: "node-2", For: 20 * time.Second}}},
	{"leave-join", []fault.Fault{
		{At: settled, Kind: fault.Leave, Target: "node-1"},
		{At: settled + 40*time.Second, Kind: fault.Join, Target: "node-4"},
	}},
	{"blackhole", []fault.Fault{{At: settled, Kind: fault.BlackHole, Target: "node-1", For: 2 * ttl}}},
	{"cut", []fault.Fault{{At: settled, Kind: fault.Cut, Target: "owner:session-5", For: 2 * ttl}}},
	{"replies-lost", []fault.Fault{{At: settled, Kind: fault.RepliesLost, Target: "node-2", For: 2 * ttl}}},
	{"freeze", []fault.Fault{{At: settled, Kind: fault.Freeze, Target: "node-1", For: 2 * ttl}}},
	{"wipe", []fault.Fault{{At: settled, Kind: fault.RedisWipe, For: 10 * time.Second}}},
	{"flush-crash", []fault.Fault{
		{At: settled, Kind: fault.RedisFlush},
		{At: settled + 50*time.Second, Kind: fault.Crash, Target: "node-2"},
	}},
	{"drawn", nil},
}

// A plan gives the same verdicts on both engines. Over all plans, failovers, gaps and moves have similar medians.
func TestEnginesAgree(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("no redis-server in PATH")
	}
	node := build(t, filepath.Join(t.TempDir(), "node"))
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
			pairs[i] = decided(t, p.name, func() pair { return both(t, node, p.name, p.faults) })
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

// sides names the two places where a plan is played.
type sides struct{ one, other string }

var engines = sides{"on the real engine", "in virtual time"}

// pair is one plan on both sides.
type pair struct {
	sides
	name          string
	first, second report.Report
	dir           string // of the first run
}

// decided plays a plan, and again if a stall of the host left a guarantee open.
func decided(t *testing.T, name string, play func() pair) pair {
	p := play()
	for left := again; left > 0 && len(p.open()) > 0; left-- {
		t.Logf("%s: the host stalled and left %v open (%s); played again", name, p.open(), p.dir)
		p = play()
	}
	return p
}

// open returns the guarantees that one run cannot judge because the host stalled, and the other one can. That is no disagreement.
func (p pair) open() (ids []string) {
	stalled := func(v check.Verdict) bool { return v.Verdict == check.Unknown && strings.Contains(v.Detail, "host") }
	for i, a := range p.first.Guarantees {
		b := p.second.Guarantees[i]
		if p.decides(a.ID) && (stalled(a) && b.Verdict != check.Unknown || stalled(b) && a.Verdict != check.Unknown) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// decides reports whether the guarantee decides on both sides.
func (p pair) decides(id string) bool {
	return slices.Contains(criteria.Decides(p.first.Params()), id) && slices.Contains(criteria.Decides(p.second.Params()), id)
}

// config returns the configuration of every plan.
func config(name string, faults []fault.Fault) (sim.Config, error) {
	return sim.Scenario{Name: name, Nodes: 3, Sessions: 12, Seed: 7, Duration: 220 * time.Second, Speed: 10, Plan: faults}.Resolve()
}

// play plays a run on the real engine.
func play(t *testing.T, c sim.Config, redis real.RedisChoice, launch sim.Launcher) (sim.Result, error) {
	return sim.Run(t.Context(), c, sim.Options{
		Engine: sim.NewReal(redis, launch), Reports: filepath.Join("..", "..", "reports", "engines"),
	})
}

func both(t *testing.T, node, name string, faults []fault.Fault) pair {
	p := pair{name: name, sides: engines}
	c, err := config(name, faults)
	if err != nil {
		t.Error(err)
		return p
	}
	r, err := play(t, c, real.RedisChoice{Kind: "server"}, sim.Launcher{Node: []string{node}})
	if err != nil {
		t.Errorf("%s on the real engine: %v", name, err)
		return p
	}
	c.Plan = &r.Plan // also if it was drawn: both engines must inject the same faults
	if c, err = c.On(sim.EngineVirtual); err != nil {
		t.Error(err)
		return p
	}
	v, err := sim.Run(t.Context(), c, sim.Options{Engine: sim.NewVirtual(nil), Reports: t.TempDir()})
	if err != nil {
		t.Errorf("%s in virtual time: %v", name, err)
		return p
	}
	p.first, p.second, p.dir = r.Report, v.Report, r.Dir
	return p
}

// sameVerdicts wants equal verdicts on the guarantees that decide, and no other guarantee that fails in only one run. A guarantee that the
// plan cannot exercise may be exercised by chance in one of them.
func (p pair) sameVerdicts(t *testing.T) {
	open := p.open()
	if len(open) > 0 {
		t.Logf("%s: %v stayed open in %d runs because the host stalled; not compared", p.name, open, again+1)
	}
	for i, a := range p.first.Guarantees {
		b := p.second.Guarantees[i]
		if slices.Contains(open, a.ID) && a.Verdict != check.Fail && b.Verdict != check.Fail {
			continue
		}
		if a.Verdict != b.Verdict && (p.decides(a.ID) || a.Verdict == check.Fail || b.Verdict == check.Fail) {
			t.Errorf("%s: %s is %s %s (%s; %s), %s %s (%s)", p.name, a.ID, a.Verdict, p.one, a.Detail, p.dir, b.Verdict, p.other, b.Detail)
		}
	}
}

// A plan is played again, at most twice, if the host left a guarantee open. A guarantee that is open for another reason is a disagreement.
func TestHostIsPlayedAgain(t *testing.T) {
	verdicts := func(detail string, o check.Outcome) report.Report {
		return report.Report{
			Config:     check.Params{Criteria: []string{"G7"}},
			Guarantees: []check.Verdict{{ID: "G7", Verdict: o, Detail: detail}},
		}
	}
	passed := verdicts("", check.Pass)
	stalled := verdicts("nothing in this run put it to the test; excused 2: overlapped by a host that stalled × 2", check.Unknown)
	for _, c := range []struct {
		name string
		runs []report.Report
		want int // number of runs that are played
		open int
	}{
		{"decided at once", []report.Report{passed}, 1, 0},
		{"decided at last", []report.Report{stalled, stalled, passed}, 3, 0},
		{"never decided", []report.Report{stalled, stalled, stalled}, 3, 1},
		{"open for another reason", []report.Report{verdicts("it takes a join and a leave", check.Unknown)}, 1, 0},
	} {
		played := 0
		p := decided(t, c.name, func() pair {
			played++
			return pair{name: c.name, first: c.runs[played-1], second: passed}
		})
		if played != c.want || len(p.open()) != c.open {
			t.Errorf("%s: played %d times, %v open; wanted %d and %d", c.name, played, p.open(), c.want, c.open)
		}
	}
}

// figure is a number of a run.
type figure struct {
	name   string
	of     func(report.Report) int64
	factor float64 // by which the medians may differ
	slack  int64   // allowed difference in any case, for a loaded machine
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

// lieAlike compares the medians over the plans for which both engines have the figure.
func (f figure) lieAlike(t *testing.T, pairs []pair) {
	var real, virtual []int64
	var table strings.Builder
	for _, p := range pairs {
		r, v := f.of(p.first), f.of(p.second)
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
