package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFindSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSessions(rapid.SliceOf(rapid.StringMatching(`[ab]{0,6}`)).Draw(t, "ids"))
		for i, id := range s.IDs {
			if got := s.Find(id); got != int32(i) {
				t.Fatalf("%q stands at %d and was found at %d", id, i, got)
			}
		}
		other := rapid.StringMatching(`[abc]{0,6}`).Draw(t, "other")
		if i, ok := slices.BinarySearch(s.IDs, other); !ok && s.Find(other) != -1 {
			t.Fatalf("%q is not there (it would be at %d) and was found at %d", other, i, s.Find(other))
		}
	})
}
