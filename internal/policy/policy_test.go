package policy

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

func TestBelief(t *testing.T) {
	acquired := &core.Tell{Kind: core.TellAcquired, Until: 1000, UntilWall: 5000}
	var none Belief
	b := none.After(acquired)
	for _, c := range []struct {
		name string
		b    Belief
		want Belief
	}{
		{"an acquisition opens the window", b, Belief{1000, 5000}},
		{"an attempt with a later deadline changes nothing", b.During(&core.Op{Deadline: 1200}), Belief{1000, 5000}},
		{"an attempt ends belief at its deadline on both clocks", b.During(&core.Op{Deadline: 400}), Belief{400, 4400}},
		{"a second attempt does not prolong it", b.During(&core.Op{Deadline: 400}).During(&core.Op{Deadline: 700}), Belief{400, 4400}},
		{"a failed renewal ends it", b.After(&core.Tell{Kind: core.TellUncertain}), none},
		{"a loss ends it", b.After(&core.Tell{Kind: core.TellLost}), none},
		{"a release ends it", b.After(&core.Tell{Kind: core.TellReleased}), none},
		{"what is not believed no attempt brings back", none.During(&core.Op{Deadline: 300}), none},
		{"a renewal brings it back", none.After(&core.Tell{Kind: core.TellRenewed, Until: 2000, UntilWall: 6000}), Belief{2000, 6000}},
		{"a yield leaves it", b.After(&core.Tell{Kind: core.TellYield}), Belief{1000, 5000}},
	} {
		if c.b != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.b, c.want)
		}
	}
	for _, c := range []struct {
		now  core.Now
		want bool
	}{{core.Now{Mono: 999, Wall: 4999}, true}, {core.Now{Mono: 1000, Wall: 1}, false}, {core.Now{Mono: 1, Wall: 5000}, false}} {
		if b.Holds(c.now) != c.want {
			t.Errorf("at %+v: not %v", c.now, c.want)
		}
	}
}

func TestDropsOfOneCauseLeaveTogether(t *testing.T) {
	drop := func(id string, cause core.Cause) core.Event {
		return core.Event{Kind: core.EvDrop, ID: id, Cause: cause}
	}
	todo := []core.Event{
		drop("a", core.CauseDrain), drop("b", core.CauseDrain), drop("c", core.CauseRequested), {Kind: core.EvWant, ID: "d"},
		drop("e", core.CauseRequested),
	}
	var got []int
	for rest := todo; len(rest) > 0; {
		n := MergeDrops(rest)
		got, rest = append(got, n), rest[n:]
	}
	if !slices.Equal(got, []int{2, 1, 1, 1}) || !slices.Equal(todo[0].IDs, []string{"b"}) {
		t.Errorf("%v, the first with %v", got, todo[0].IDs)
	}
}
