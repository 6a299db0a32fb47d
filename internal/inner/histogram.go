package inner

import (
	"slices"
	"time"
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

// Renewals are the successful renewals of an instance since it was made. They are counted directly, because an event for each would double
// the cost of a renewal.
type Renewals struct {
	Took   Histogram // from sending a renewal to its success
	Margin Histogram // rest of the trust window at that time
}
