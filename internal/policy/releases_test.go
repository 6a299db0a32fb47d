package policy

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

func TestReleasesWaitForTheWordOfRedis(t *testing.T) {
	op := &core.Op{Kind: core.OpRelease, Items: []core.Item{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
	answer := core.Answer{Results: []core.Result{{Outcome: core.OutReleased}, {Outcome: core.OutUnknown}}}
	failed, stale := answer, answer
	failed.Failure, stale.Stale = core.FailUnknown, true
	renewal := *op
	renewal.Kind = core.OpRenew
	for _, c := range []struct {
		name string
		op   *core.Op
		a    core.Answer
		want []int
	}{
		{"what is answered", op, answer, []int{1, 2}},
		{"no answer", op, failed, nil},
		{"of an epoch before", op, stale, nil},
		{"of a renewal", &renewal, answer, nil},
	} {
		var r Releases[int]
		r.Wait("a", 1)
		r.Wait("a", 2)
		r.Wait("b", 3)
		r.Wait("c", 4)
		if got := r.Answered(c.op, &c.a); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v have it, want %v", c.name, got, c.want)
		}
		if got := r.Over("b"); !slices.Equal(got, []int{3}) || len(r.Over("b")) > 0 {
			t.Errorf("%s: %v wait for what is lost", c.name, got)
		}
		left := []string{"c"}
		if c.want == nil {
			left = []string{"a", "c"}
		}
		if got := r.Left(); !slices.Equal(got, left) {
			t.Errorf("%s: %v are left, want %v", c.name, got, left)
		}
	}
}
