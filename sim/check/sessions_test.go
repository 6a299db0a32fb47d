package check

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Sessions are found by the IDs that were added and by no other, stay where they are, and are given in both orders.
func TestSessionsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-f]{0,4}`), 0, 300, rapid.ID).Draw(t, "ids")
		var s sessions
		byID := map[string]*session{}
		for _, id := range ids {
			if s.find(id) != nil {
				t.Fatalf("%q was found before it was added", id)
			}
			byID[id] = s.add(id)
		}
		for i, id := range ids {
			if got := s.find(id); got != byID[id] || got != s.all[i] || got.id != id {
				t.Fatalf("%q, the %dth, was found as %v", id, i, got)
			}
		}
		var batch [batchLen]history.Event
		for i := range batch {
			batch[i].Session = rapid.StringMatching(`[a-g]{0,4}`).Draw(t, "session")
			batch[i].Kind = rapid.SampledFrom([]history.Kind{history.Arrived, history.Renewed}).Draw(t, "kind")
		}
		var met [batchLen]*session
		n := rapid.IntRange(0, batchLen).Draw(t, "events")
		s.findAll(batch[:n], &met)
		for i, x := range met {
			if i < n && x != byID[batch[i].Session] || i >= n && x != nil {
				t.Fatalf("event %d of %d, of %q, was found to be of %v", i, n, batch[i].Session, x)
			}
		}
		if other := rapid.StringMatching(`[a-g]{0,5}`).Draw(t, "other"); byID[other] == nil && s.find(other) != nil {
			t.Fatalf("%q was never added and was found", other)
		}
		slices.Sort(ids)
		for i, x := range s.sorted() {
			if x.id != ids[i] {
				t.Fatalf("%q stands at %d by ID, not %q", x.id, i, ids[i])
			}
		}
	})
}
