package check

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim/history"
)

// What a ring gives back are the last events that it was given, whole, whoever said them and whatever stands in them.
func TestRingsGiveBackWhatTheyWereGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(Params{})
		recent, routine, polls := map[string][]history.Event{}, map[string][]history.Event{}, map[string][]history.Event{}
		text := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		for k := range rapid.IntRange(0, 80).Draw(t, "events") {
			e := history.Event{
				T: int64(k), Kind: history.Kind(rapid.IntRange(int(history.Acquired), int(history.RedisFence)).Draw(t, "kind")),
				Session: text("session", "a", "b"), Instance: text("instance", "", "i-1", "i-2"), Node: text("node", "", "node-1", "node-2"),
				Fence: rapid.Int64Range(0, 2).Draw(t, "fence"), Until: rapid.Int64Range(100, 102).Draw(t, "until"), // no key expires
				N: rapid.Int64Range(0, 2).Draw(t, "n"), Reason: text("reason", "", "why"),
			}
			w.take(&e)
			all := recent
			switch {
			case isPoll(e.Kind):
				all = polls
			case isRoutine(e.Kind):
				all = routine
			}
			all[e.Session] = append(all[e.Session], e)
		}
		for _, s := range w.sessions.all {
			id := s.id
			for what, c := range map[string]struct {
				got, want []history.Event
				n         int
			}{
				"recent":  {s.recent.all(), recent[id], leaseLen},
				"routine": {s.routine.all(), routine[id], renewalLen},
				"polls":   {s.polls.all(), polls[id], pollsLen},
			} {
				if want := c.want[max(0, len(c.want)-c.n):]; !slices.Equal(c.got, want) {
					t.Fatalf("%s of %s:\n%s\nnot\n%s", what, id, fmt.Sprint(c.got), fmt.Sprint(want))
				}
			}
		}
	})
}
