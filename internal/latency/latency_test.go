package latency

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLatenessEndsAndIsSorted(t *testing.T) {
	stop := make(chan struct{})
	seen := lateness(stop)
	close(stop)
	if all := <-seen; len(all) == 0 || !slices.IsSorted(all) {
		t.Errorf("saw %v: want at least one, sorted", all)
	}
}
