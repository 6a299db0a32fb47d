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
		ranks := NewRanks()
		placers := []*Placer{{shared: ranks}, {shared: ranks}}
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
			s := NewSessions(ids)
			for i, p := range placers {
				if len(ids) > 0 && rapid.Bool().Draw(t, "hears of a change") {
					owner[rapid.IntRange(0, len(ids)-1).Draw(t, "session")] = int32(rapid.IntRange(-1, len(instances)-1).Draw(t, "to"))
				}
				var alone Placer
				got, want := p.Place(s, instances, owner), alone.Place(s, instances, owner)
				if !slices.Equal(got, want) || !slices.Equal(p.quota, alone.quota) {
					t.Fatalf("placer %d, %d sessions on %d instances: with shared ranks\n%v, quotas %v\nalone\n%v, quotas %v", i, len(ids),
						len(instances), got, p.quota, want, alone.quota)
				}
				clear(got) // it is the caller's until the next call
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
