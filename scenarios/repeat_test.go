package scenarios

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
)

// stalled reports whether stalls of the host are the only reason for unproven guarantees. A storm may be repeated only then. A failure,
// or a guarantee not exercised for another reason, is final.
func stalled(verdicts []check.Verdict) bool {
	unproven := unproven(verdicts)
	return len(unproven) > 0 && !slices.ContainsFunc(unproven, func(v check.Verdict) bool {
		return v.Verdict != check.Unknown ||
			!strings.Contains(v.Detail, "a host that stalled") && !strings.Contains(v.Detail, "without what the host stalled")
	})
}

// unproven returns the verdicts on guarantees that did not hold or were not exercised.
func unproven(verdicts []check.Verdict) []check.Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v check.Verdict) bool {
		return v.Verdict == check.Pass && v.Exercised > 0
	})
}

func TestOnlyAStalledHostIsAReasonToRepeat(t *testing.T) {
	pass, fail := check.Verdict{Verdict: check.Pass, Exercised: 1}, check.Verdict{Verdict: check.Fail, Detail: "two lead"}
	host := check.Verdict{Verdict: check.Unknown, Detail: "the calm, without what the host stalled, was too short"}
	excused := check.Verdict{Verdict: check.Unknown,
		Detail: "nothing in this run put it to the test; excused 1: overlapped by a host that stalled × 1"}
	idle := check.Verdict{Verdict: check.Unknown,
		Detail: "nothing in this run put it to the test; a limit was widened by 9 ms in which the host stalled"}
	failed := fail
	failed.Detail = excused.Detail
	for name, tt := range map[string]struct {
		verdicts []check.Verdict
		again    bool
	}{
		"all hold":                       {[]check.Verdict{pass, pass}, false},
		"the host":                       {[]check.Verdict{pass, host, excused}, true},
		"a failure":                      {[]check.Verdict{fail}, false},
		"a failure beside the host":      {[]check.Verdict{host, fail}, false},
		"a failure that names the host":  {[]check.Verdict{failed}, false},
		"never tested, by another cause": {[]check.Verdict{host, idle}, false},
		"a pass that proves nothing":     {[]check.Verdict{{Verdict: check.Pass, Detail: excused.Detail}}, false},
	} {
		if again := stalled(tt.verdicts); again != tt.again {
			t.Errorf("%s: again %v, want %v", name, again, tt.again)
		}
	}
}
