package explore

import (
	"fmt"
	"math"

	"github.com/leasestorm/leasestorm/sim"
)

// SeedRange is an inclusive range of seeds.
type SeedRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// SeedsMax bounds a range, so that a typing error does not run for a year.
const SeedsMax = 1_000_000_000_000

const shardsMax = 1_000_000

// Shard is one of several parts of a range: every Of-th seed from the Index-th, counted from 1.
type Shard struct {
	Index uint64 `json:"index"`
	Of    uint64 `json:"of"`
}

func (r SeedRange) count(s Shard) uint64 {
	all := r.To - r.From + 1
	if all < s.Index {
		return 0
	}
	return (all-s.Index)/s.Of + 1
}

// seed returns the i-th seed of the shard, from 0.
func (r SeedRange) seed(s Shard, i uint64) uint64 { return r.From + s.Index - 1 + i*s.Of }

func checkRange(seeds SeedRange, shard Shard) error {
	switch {
	case seeds.From == 0 || seeds.To < seeds.From:
		return wrong("seeds", "%d-%d is no range: give the first seed, from 1, and the last, such as 1-1000",
			seeds.From, seeds.To)
	case seeds.To-seeds.From >= SeedsMax || seeds.To == math.MaxUint64:
		return wrong("seeds", "%d-%d is too many or too far: at most %d seeds, below %d", seeds.From, seeds.To,
			SeedsMax, uint64(math.MaxUint64))
	case shard.Of < 1 || shard.Of > shardsMax || shard.Index < 1 || shard.Index > shard.Of:
		return wrong("shard", "%d/%d is out of range: give 1/n to n/n, n at most %d", shard.Index, shard.Of, shardsMax)
	case seeds.count(shard) == 0:
		return wrong("shard", "%d/%d has no seed: %d-%d has only %d", shard.Index, shard.Of, seeds.From, seeds.To,
			seeds.To-seeds.From+1)
	}
	return nil
}

func wrong(key, format string, args ...any) error {
	return &sim.KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}
