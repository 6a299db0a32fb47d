package criteria

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Beside other criteria, G10 decides only if a change of a lease could be matched to an instance.
func TestDeciding(t *testing.T) {
	for _, c := range []struct {
		criteria string
		g10      check.Verdict
		want     string
	}{
		{"G1,G10", check.Verdict{Verdict: check.Pass, Exercised: 7}, "G1,G10"},
		{"G1,G10", check.Verdict{Verdict: check.Fail, Exercised: 7}, "G1,G10"},
		{"G1,G10", check.Verdict{Verdict: check.Unknown, Exercised: 7}, "G1,G10"},
		{"G1,G10", check.Verdict{Verdict: check.Unknown}, "G1"},
		{"G10", check.Verdict{Verdict: check.Unknown}, "G10"},
	} {
		c.g10.ID = "G10"
		p := check.Params{Criteria: strings.Split(c.criteria, ",")}
		if got := strings.Join(Deciding(p, check.Result{Verdicts: []check.Verdict{{ID: "G1"}, c.g10}}), ","); got != c.want {
			t.Errorf("%s, and G10 is %s of %d changes: %s decide, want %s", c.criteria, c.g10.Verdict, c.g10.Exercised, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	result := func(set map[string]check.Outcome) check.Result {
		r := check.Result{Complete: true}
		for _, id := range check.IDs(check.SystemPolling) {
			o := check.Pass
			if x, ok := set[id]; ok {
				o = x
			}
			r.Verdicts = append(r.Verdicts, check.Verdict{ID: id, Verdict: o})
		}
		return r
	}
	cut := result(nil)
	cut.Complete = false
	for _, c := range []struct {
		name string
		r    check.Result
		want check.Outcome
	}{
		{"all pass", result(nil), check.Pass},
		{"a criterion fails", result(map[string]check.Outcome{"G5": check.Fail}), check.Fail},
		{"a criterion is unknown", result(map[string]check.Outcome{"G5": check.Unknown}), check.Unknown},
		{"another fails", result(map[string]check.Outcome{"G6": check.Fail}), check.Pass},
		{"another is unknown", result(map[string]check.Outcome{"G6": check.Unknown, "G2": check.Unknown}), check.Pass},
		{"safety fails, asked or not", result(map[string]check.Outcome{"G2": check.Fail, "G5": check.Unknown}), check.Fail},
		{"not complete", cut, check.Unknown},
	} {
		p := check.Params{Criteria: []string{"G1", "G5"}}
		if got := Decide(p, c.r); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
	quiet := check.Params{System: check.SystemPolling}
	if got := Decide(quiet, result(map[string]check.Outcome{"G6": check.Fail})); got != check.Fail {
		t.Errorf("no criteria named, one that the plan does not exercise fails: %s", got)
	}
}

func TestParse(t *testing.T) {
	got, err := Parse(" g3,G1 ,,G3")
	if err != nil || !slices.Equal(got, []string{"G1", "G3"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "G0", "G99", "one", ",", "G1;G2"} {
		if _, err := Parse(bad); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func plan(faults ...fault.Fault) fault.Plan {
	return fault.Plan{Version: fault.Version, Faults: faults}
}

func TestExercisable(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name string
		plan fault.Plan
		has  []string
		not  []string
	}{
		{"nothing", plan(), []string{"G6", "G12"}, []string{"G1", "G5", "G9", "G13"}},
		{"a crash", plan(fault.Fault{At: 5 * s, Kind: fault.Crash, For: 5 * s}), []string{"G1", "G5", "G8"}, []string{"G7", "G9"}},
		{
			"a crash in the middle of a black hole",
			plan(fault.Fault{At: 5 * s, Kind: fault.BlackHole, For: 9 * s}, fault.Fault{At: 6 * s, Kind: fault.Crash}),
			[]string{"G1", "G4"}, []string{"G5"},
		},
		{"a join", plan(fault.Fault{At: 5 * s, Kind: fault.Join}), []string{"G7", "G8"}, []string{"G5", "G13"}},
		{
			"a join and a leave at once",
			plan(fault.Fault{At: 5 * s, Kind: fault.Join}, fault.Fault{At: 6 * s, Kind: fault.Leave}),
			[]string{"G13"}, []string{"G7"},
		},
		{"a flush", plan(fault.Fault{At: 5 * s, Kind: fault.RedisFlush}), []string{"G9"}, []string{"G5"}},
		{"no replicas", plan(fault.Fault{At: 5 * s, Kind: fault.RedisNoReplicas, For: 5 * s}), []string{"G4", "G9"}, []string{"G5"}},
		{"no memory, but for renewals", plan(fault.Fault{At: 5 * s, Kind: fault.RedisMemory, For: 5 * s}), []string{"G9"}, []string{"G4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := check.Params{Nodes: 3, Sessions: 1, Plan: c.plan, Timings: timing.Timings{
				TTL: 3 * s, Renew: s, RenewTimeout: 300 * time.Millisecond, Heartbeat: s, Discovery: s, Poll: 500 * time.Millisecond,
				PollTimeout: 400 * time.Millisecond,
			}}
			got := Exercisable(p)
			for _, id := range c.has {
				if !slices.Contains(got, id) {
					t.Errorf("%v lacks %s", got, id)
				}
			}
			for _, id := range c.not {
				if slices.Contains(got, id) {
					t.Errorf("%v has %s", got, id)
				}
			}
		})
	}
}
