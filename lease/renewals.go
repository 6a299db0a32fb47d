package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Histogram counts durations by length. An assignment shares Counts with the original; use Copy for a snapshot.
type Histogram struct {
	Bounds []float64 // upper bounds of the buckets in s, ascending
	Counts []uint64  // number in each bucket, and last the number above all bounds
	Sum    float64   // s
}

// Observe adds one duration. h must have its Bounds. It is not safe for concurrent use.
func (h *Histogram) Observe(d time.Duration) {
	if h.Counts == nil {
		h.Counts = make([]uint64, len(h.Bounds)+1)
	}
	at, seconds := 0, d.Seconds()
	for at < len(h.Bounds) && seconds > h.Bounds[at] {
		at++
	}
	h.Counts[at]++
	h.Sum += seconds
}

// Copy returns a copy of h.
func (h *Histogram) Copy() Histogram {
	return Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts), Sum: h.Sum}
}

// Count returns how many durations were observed.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Renewals are the successful renewals of an instance since it was made. They are counted directly, because an event for each would cost
// as much again as the renewal.
type Renewals struct {
	Took   Histogram // from sending a renewal to its success
	Margin Histogram // rest of the trust window at that time

	_ struct{}
}

// Bounds of the histograms. A renewal takes from parts of a millisecond to a tenth of the TTL; users choose the length of the window.
var (
	tookBounds   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	marginBounds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
)

// renewalCounts counts renewals. The loop writes all counts of a step at once.
type renewalCounts struct {
	mu     sync.Mutex
	counts Renewals
}

func newRenewals() *renewalCounts {
	return &renewalCounts{counts: Renewals{Took: Histogram{Bounds: tookBounds}, Margin: Histogram{Bounds: marginBounds}}}
}

// renewed counts a renewal of h. The caller holds mu, and the window has not moved yet.
func (r *renewalCounts) renewed(h *Lease, t *core.Tell) {
	r.counts.Took.Observe(time.Duration(t.At - t.Sent))
	r.counts.Margin.Observe(time.Duration(max(0, core.Time(h.until.Load())-t.At)))
	h.renewals.Add(1)
}

func (r *renewalCounts) now() Renewals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Renewals{Took: r.counts.Took.Copy(), Margin: r.counts.Margin.Copy()}
}
