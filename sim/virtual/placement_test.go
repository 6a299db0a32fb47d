package virtual

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Whoever shares a placement with others, who hear of other changes and other sessions, is placed as if alone.
func TestSharedPlacementIsAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shared placement
		sets := make([]*core.Sessions, 2)
		for i := range sets {
			ids := make([]string, rapid.IntRange(1, 60).Draw(t, "sessions"))
			for k := range ids {
				ids[k] = fmt.Sprintf("session-%d", k)
			}
			sets[i] = core.NewSessions(ids)
		}
		for range rapid.IntRange(1, 6).Draw(t, "looks") {
			s := rapid.SampledFrom(sets).Draw(t, "set")
			instances := []uint64{3, 1 << 40, 5, 1 << 60}[:rapid.IntRange(0, 4).Draw(t, "instances")]
			owner := slices.Repeat([]int32{-1}, len(s.IDs))
			if n := len(instances); n > 0 && rapid.Bool().Draw(t, "owned") {
				owner[rapid.IntRange(0, len(owner)-1).Draw(t, "session")] = int32(rapid.IntRange(0, n-1).Draw(t, "owner"))
			}
			target, quota := shared.Place(s, instances, owner)
			var alone core.Placer
			if wantTarget, wantQuota := alone.Place(s, instances, owner); !slices.Equal(target, wantTarget) || !slices.Equal(quota, wantQuota) {
				t.Fatalf("%d sessions on %d instances: shared %v, quotas %v; alone %v, quotas %v", len(s.IDs), len(instances),
					target, quota, wantTarget, wantQuota)
			}
		}
	})
}
