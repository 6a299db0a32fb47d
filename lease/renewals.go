package lease

import (
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
)

// Bounds of the histograms. A renewal takes from parts of a millisecond to a tenth of the TTL; users choose the length of the window.
var (
	tookBounds   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	marginBounds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
)

// renewalCounts counts renewals. The loop writes all counts of a step at once.
type renewalCounts struct {
	mu     sync.Mutex
	counts inner.Renewals
}

func newRenewals() *renewalCounts {
	return &renewalCounts{counts: inner.Renewals{Took: inner.Histogram{Bounds: tookBounds}, Margin: inner.Histogram{Bounds: marginBounds}}}
}

// renewed counts a renewal of h. The caller holds mu, and the window has not moved yet.
func (r *renewalCounts) renewed(h *Lease, t *core.Tell) {
	r.counts.Took.Observe(time.Duration(t.At - t.Sent))
	r.counts.Margin.Observe(time.Duration(max(0, core.Time(h.until.Load())-t.At)))
	h.renewals.Add(1)
}

func (r *renewalCounts) now() inner.Renewals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return inner.Renewals{Took: r.counts.Took.Copy(), Margin: r.counts.Margin.Copy()}
}
