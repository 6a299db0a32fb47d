// Package criteria decides the verdict of a judged run: which guarantees must pass, and whether they did.
package criteria

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/check"
)

// ErrUnknown reports a criterion that is no guarantee.
var ErrUnknown = errors.New("criteria: unknown guarantee")

// Parse parses a list of guarantees separated by commas ("G1,g5"), as --criteria and scenario files use it. It returns each ID once, in the
// order of their numbers. It accepts the guarantees of all systems; an unknown ID or an empty list is an ErrUnknown.
func Parse(list string) ([]string, error) {
	var all, ids []string
	for _, name := range check.Systems() {
		all = append(all, check.IDs(name)...)
	}
	for id := range strings.SplitSeq(list, ",") {
		if id = strings.ToUpper(strings.TrimSpace(id)); id == "" {
			continue
		}
		if !slices.Contains(all, id) {
			return nil, fmt.Errorf("%w %q: choose from %s", ErrUnknown, id, strings.Join(all, ", "))
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: none named; choose from %s", ErrUnknown, strings.Join(all, ", "))
	}
	return slices.DeleteFunc(all, func(id string) bool { return !slices.Contains(ids, id) }), nil
}

// Decides returns the guarantees that must pass: the named ones, or else those that the plan can exercise. If none are named, Decide also
// fails on any other guarantee that broke.
func Decides(p check.Params) []string {
	if len(p.Criteria) > 0 {
		return p.Criteria
	}
	return Exercisable(p)
}

// Deciding returns the named criteria that decide a judged run: all, without a G10 for which no change in Redis matched an instance.
func Deciding(p check.Params, r check.Result) []string {
	v, _ := r.Verdict("G10")
	if v.Verdict != check.Unknown || v.Exercised > 0 || len(p.Criteria) < 2 {
		return p.Criteria
	}
	return slices.DeleteFunc(slices.Clone(p.Criteria), func(id string) bool { return id == "G10" })
}

// Decide returns the verdict of a run:
//   - fail, if a criterion or a safety guarantee failed, or, where no criteria are named, any guarantee;
//   - unknown, if the run is incomplete, nothing decides, or a deciding guarantee did not pass or was exercised fewer than p.Least times;
//   - pass otherwise.
func Decide(p check.Params, r check.Result) check.Outcome {
	criteria, named := Decides(p), len(p.Criteria) > 0
	out := check.Pass
	if !r.Complete || len(criteria) == 0 {
		out = check.Unknown
	}
	safety := check.Safety(p.System)
	for _, v := range r.Verdicts {
		switch asked := slices.Contains(criteria, v.ID); {
		case v.Verdict == check.Fail && (asked || !named || slices.Contains(safety, v.ID)):
			return check.Fail
		case asked && (v.Verdict != check.Pass || v.Exercised < p.Least):
			out = check.Unknown
		}
	}
	return out
}

// Thin reports whether the guarantee decides and passed, but was exercised fewer than p.Least times.
func Thin(p check.Params, v check.Verdict) bool {
	return v.Verdict == check.Pass && v.Exercised < p.Least && slices.Contains(Decides(p), v.ID)
}
