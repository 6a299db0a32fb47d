package check

import (
	"errors"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// ErrCriterion reports a criterion that is no guarantee.
var ErrCriterion = errors.New("check: unknown guarantee")

// Exercisable returns the guarantees that a run of these parameters can put to the test. They are the run's criteria if none are named. A
// kind of fault counts only if the plan has one whose change no other fault could delay.
func Exercisable(p Params) []string {
	var ids []string
	s := systemOf(p.System)
	for _, id := range s.ids() {
		if p.judges(id) && s.exercises(p, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// counts reports whether a budget limits the commands of the instances. Budgets do not apply to another program.
func (p Params) counts() bool { return p.Counted && !p.Foreign }

func (p Params) count(kinds ...fault.Kind) (n int) {
	for _, f := range p.Plan.Faults {
		if slices.Contains(kinds, f.Kind) {
			n++
		}
	}
	return n
}

func (p Params) most() int {
	n := p.Nodes
	most := n
	for _, f := range p.Plan.Faults { // in order of At
		switch f.Kind {
		case fault.Join:
			n++
		case fault.Leave:
			n--
		}
		most = max(most, n)
	}
	return most
}

func (p Params) has(any fault.Effect) bool { return p.count(fault.Having(any)...) > 0 }

// unanswered reports whether a fault with one of the effects keeps a node, or all nodes, from every renewal for at least d.
func (p Params) unanswered(d time.Duration, any fault.Effect) bool {
	return slices.ContainsFunc(p.Plan.Faults, func(f fault.Fault) bool {
		return f.Kind.Has(any) && f.Kind.Refuses() != fault.RefusesSome && f.For >= d
	})
}

// alone reports whether the plan has a fault of these kinds that nothing overlaps until limit after it. Faults that delay nobody may.
func (p Params) alone(limit time.Duration, kinds ...fault.Kind) bool {
	return p.apart(0, limit, false, kinds)
}

// quiet is like alone, but no fault at all may overlap, and the time in which the fleet settles before it counts too.
func (p Params) quiet(limit time.Duration, kinds ...fault.Kind) bool {
	return p.apart(time.Duration(p.settle()), limit, true, kinds)
}

// apart reports whether the plan has a fault of these kinds that no other overlaps. With all, faults that delay nobody overlap too.
func (p Params) apart(before, after time.Duration, all bool, kinds []fault.Kind) bool {
	others := map[int]span{}
	for i, f := range p.Plan.Faults {
		if r, delays := p.planned(f); delays || all {
			others[i] = span{r.from, max(r.to, r.from)}
		}
	}
	for i, f := range p.Plan.Faults {
		if !slices.Contains(kinds, f.Kind) {
			continue
		}
		from, to := int64(f.At-before), int64(f.At+f.For+after)
		if f.Kind == fault.Crash || f.Kind == fault.Terminate {
			to = int64(f.At + after) // For is the time until the restart
		}
		overlapped := false
		for j, r := range others {
			overlapped = overlapped || j != i && r.from <= to && r.to >= from
		}
		if !overlapped {
			return true
		}
	}
	return false
}

func (p Params) planned(f fault.Fault) (span, bool) {
	w := world{Params: p}
	inj := planned(f)
	inj.start, inj.end = int64(f.At), int64(f.At+f.For)
	r, ok := w.reachBy(inj, never)
	if !ok {
		return span{int64(f.At), int64(f.At)}, false
	}
	return r, true
}

// Decides returns the guarantees that must pass: the named ones (Params.Criteria), or else those that the plan can exercise. If none are
// named, Decide also fails on any other guarantee that broke.
func Decides(p Params) []string {
	if len(p.Criteria) > 0 {
		return p.Criteria
	}
	return Exercisable(p)
}

// Deciding returns the named criteria that decide a judged run: all, without a G10 for which no change in Redis matched an instance.
func Deciding(p Params, r Result) []string {
	v, _ := r.Verdict("G10")
	if v.Verdict != Unknown || v.Exercised > 0 || len(p.Criteria) < 2 {
		return p.Criteria
	}
	return slices.DeleteFunc(slices.Clone(p.Criteria), func(id string) bool { return id == "G10" })
}

// Decide returns the verdict of a run:
//   - fail, if a criterion or a safety guarantee failed, or, where no criteria are named, any guarantee;
//   - unknown, if the run is incomplete, nothing decides, or a deciding guarantee did not pass or was exercised fewer than Params.Least
//     times;
//   - pass otherwise.
func Decide(p Params, r Result) Outcome {
	criteria, named := Decides(p), len(p.Criteria) > 0
	out := Pass
	if !r.Complete || len(criteria) == 0 {
		out = Unknown
	}
	safety := Safety(p.System)
	for _, v := range r.Verdicts {
		switch asked := slices.Contains(criteria, v.ID); {
		case v.Verdict == Fail && (asked || !named || slices.Contains(safety, v.ID)):
			return Fail
		case asked && (v.Verdict != Pass || v.Exercised < p.Least):
			out = Unknown
		}
	}
	return out
}

// Thin reports whether the guarantee decides and passed, but was exercised fewer than Params.Least times.
func Thin(p Params, v Verdict) bool {
	return v.Verdict == Pass && v.Exercised < p.Least && slices.Contains(Decides(p), v.ID)
}

// ExitCode is the simulator's exit code for a verdict: 0 pass, 1 fail, 2 unknown.
func (o Outcome) ExitCode() int {
	switch o {
	case Pass:
		return 0
	case Fail:
		return 1
	}
	return 2
}
