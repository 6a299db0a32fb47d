package check

import (
	"strings"
	"testing"
)

// G10 beside other criteria decides only where a change of a lease could be matched to an instance.
func TestDeciding(t *testing.T) {
	for _, c := range []struct {
		criteria string
		g10      Verdict
		want     string
	}{
		{"G1,G10", Verdict{Verdict: Pass, Exercised: 7}, "G1,G10"},
		{"G1,G10", Verdict{Verdict: Fail, Exercised: 7}, "G1,G10"},
		{"G1,G10", Verdict{Verdict: Unknown, Exercised: 7}, "G1,G10"},
		{"G1,G10", Verdict{Verdict: Unknown}, "G1"},
		{"G10", Verdict{Verdict: Unknown}, "G10"},
	} {
		c.g10.ID = "G10"
		p := Params{Criteria: strings.Split(c.criteria, ",")}
		if got := strings.Join(Deciding(p, Result{Verdicts: []Verdict{{ID: "G1"}, c.g10}}), ","); got != c.want {
			t.Errorf("%s, and G10 is %s of %d changes: %s decide, want %s", c.criteria, c.g10.Verdict, c.g10.Exercised, got, c.want)
		}
	}
}
