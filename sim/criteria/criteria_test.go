package criteria

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
)

// G10 beside other criteria decides only where a change of a lease could be matched to an instance.
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
