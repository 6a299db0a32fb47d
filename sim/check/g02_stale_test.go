package check

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// Of polls of one session that are all served at once each overlaps with all others, and each overlap asks whether its poll is a suspect:
// that looks at few of them.
func TestSuspectsAreFoundByTheirNumbers(t *testing.T) {
	const polls, most = 10_000, 15 // its logarithm, and one
	var all turns
	for _, n := range []int64{1, 0} { // two that arrive at once may be numbered the other way round
		for i := n; i < polls; i += 2 {
			at, found, looked := all.numbered(i)
			if found || looked > most {
				t.Fatalf("poll %d: found %v, after %d of them", i, found, looked)
			}
			all.suspects = slices.Insert(all.suspects, at, &suspect{poll: history.Event{N: i}})
		}
	}
	for i := range int64(polls) {
		if _, found, looked := all.numbered(i); !found || looked > most {
			t.Fatalf("poll %d: found %v, after %d of them", i, found, looked)
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
