package core

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whoever shares ranks with others that see other instances and other sessions places as if alone.
func TestSharedRanksPlaceAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := Placer{shared: NewRanks()}
		for range rapid.IntRange(1, 4).Draw(t, "looks") {
			instances := make([]uint64, rapid.IntRange(1, 4*favouritesMax).Draw(t, "instances"))
			first := rapid.IntRange(0, 20).Draw(t, "first instance")
			for i := range instances {
				instances[i] = hashID(fmt.Sprintf("host-%d", first+i))
			}
			ids := make([]string, rapid.IntRange(0, 300).Draw(t, "sessions"))
			for i := range ids {
				ids[i] = fmt.Sprintf("session-%d", 7*i)
			}
			owner := make([]int32, len(ids))
			for i := range owner {
				owner[i] = int32(rapid.IntRange(-1, len(instances)-1).Draw(t, "owner"))
			}
			var alone Placer
			s := NewSessions(ids)
			if got, want := shared.Place(s, instances, owner), alone.Place(s, instances, owner); !slices.Equal(got, want) {
				t.Fatalf("%d sessions on %d instances: with shared ranks\n%v\nalone\n%v", len(ids), len(instances), got, want)
			}
		}
	})
}

func TestFindSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSessions(rapid.SliceOf(rapid.StringMatching(`[ab]{0,6}`)).Draw(t, "ids"))
		for i, id := range s.IDs {
			if got := s.find(id); got != int32(i) {
				t.Fatalf("%q stands at %d and was found at %d", id, i, got)
			}
		}
		other := rapid.StringMatching(`[abc]{0,6}`).Draw(t, "other")
		if i, ok := slices.BinarySearch(s.IDs, other); !ok && s.find(other) != -1 {
			t.Fatalf("%q is not there (it would be at %d) and was found at %d", other, i, s.find(other))
		}
	})
}
