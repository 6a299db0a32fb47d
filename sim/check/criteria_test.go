package check

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// Each fault of a plan is held against all others, however many somebody put there: here the first half overlaps nothing, and of the
// second each overlaps all of that half.
func TestExercisableOfManyFaults(t *testing.T) {
	const faults = 400_000
	p := storyParams()
	for i := range faults {
		f := fault.Fault{At: time.Duration(i) * time.Hour, Kind: fault.BlackHole, For: time.Second}
		if i >= faults/2 {
			f.At, f.Kind = faults*time.Hour, fault.Crash
		}
		p.Plan.Faults = append(p.Plan.Faults, f)
	}
	if p.alone(time.Second, fault.Crash) {
		t.Error("a crash is taken to be alone that is one of many at once")
	}
	p.Plan.Faults = append(p.Plan.Faults, fault.Fault{At: 2 * faults * time.Hour, Kind: fault.Crash})
	if !p.alone(time.Second, fault.Crash) {
		t.Error("a crash is not taken to be alone that is days from all others")
	}
}

// A fault is apart from others where no other's reach meets its own, looked for one by one.
func TestReachesMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x reaches
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			from := rapid.Int64Range(0, 20).Draw(t, "from")
			x = append(x, reached{span: span{from, from + rapid.Int64Range(0, 5).Draw(t, "length")}, of: i})
		}
		x.order()
		from, but := rapid.Int64Range(0, 20).Draw(t, "at"), rapid.IntRange(0, 12).Draw(t, "but")
		to := from + rapid.Int64Range(0, 5).Draw(t, "for")
		want := false
		for _, r := range x {
			want = want || r.of != but && r.from <= to && r.to >= from
		}
		if got := x.meet(from, to, but); got != want {
			t.Fatalf("%v and %d to %d without %d: %v", x, from, to, but, got)
		}
	})
}
