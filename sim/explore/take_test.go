package explore

import (
	"slices"
	"testing"
)

// Finished seeds after a gap are kept in order, and count once the gap is closed.
func TestSeedsBehindTheNext(t *testing.T) {
	st := &state{}
	for _, step := range []struct {
		index, next uint64
		beyond      []uint64
	}{
		{3, 0, []uint64{3}}, {1, 0, []uint64{1, 3}}, {2, 0, []uint64{1, 2, 3}}, {6, 0, []uint64{1, 2, 3, 6}}, {0, 4, []uint64{6}},
		{4, 5, []uint64{6}}, {5, 7, nil}, {7, 8, nil},
	} {
		st.take(seedResult{index: step.index})
		if st.Next != step.next || !slices.Equal(st.Beyond, step.beyond) {
			t.Errorf("after %d: next %d, beyond %v; want %d, %v", step.index, st.Next, st.Beyond, step.next, step.beyond)
		}
	}
}
