package real

import (
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// However often a host stalled before, limits are widened by what it stalls now. What bounds the history bounds stalls too.
func TestEveryStallIsTold(t *testing.T) {
	const many, each, last = 100_000, int64(6e6), int64(4e9)
	r := &run{rec: history.NewRecorder()}
	for i := range int64(many) {
		r.stalled(2*i*each, (2*i+1)*each)
	}
	r.stalled(2*many*each, 2*many*each+last)
	told := int64(0)
	for e := range r.rec.Events() {
		told += e.Until - e.T
	}
	if want := many*each + last; told != want {
		t.Errorf("%d ns of stalls are told, and there were %d", told, want)
	}
	r.rec = history.NewRecorder()
	r.rec.Bound(1 << 20)
	for i := range int64(many) {
		r.stalled(2*i*each, (2*i+1)*each)
	}
	select {
	case <-r.rec.Full():
	default:
		t.Errorf("%d stalls are kept where there is room for a megabyte", r.rec.Len())
	}
}
