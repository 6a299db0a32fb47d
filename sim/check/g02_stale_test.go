package check

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Suspects are found by the numbers of their polls, in whatever order these arrive.
func TestSuspectsAreFoundByTheirNumbers(t *testing.T) {
	const polls = 1000
	var all turns
	for _, n := range []int64{1, 0} { // two that arrive at once may be numbered the other way round
		for i := n; i < polls; i += 2 {
			at, found := all.numbered(i)
			if found {
				t.Fatalf("poll %d is there before it arrives", i)
			}
			all.suspects = slices.Insert(all.suspects, at, &suspect{poll: history.Event{N: i}})
		}
	}
	for i := range int64(polls) {
		if _, found := all.numbered(i); !found {
			t.Fatalf("poll %d is not found", i)
		}
		all.counted(i)
	}
	all.counted(polls)
	for i, p := range all.suspects {
		if !p.cleared || p.poll.N != int64(i) {
			t.Fatalf("suspect %d is %+v", i, p)
		}
	}
	for len(all.suspects) > 1 {
		all.judged(all.suspects[0])
		all.judged(all.suspects[len(all.suspects)-1])
	}
	if len(all.suspects) != 0 {
		t.Errorf("%d suspects are left", len(all.suspects))
	}
}
