package virtual_test

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// Same seed, same events, whatever else the process did before; another seed, other events.
func TestSameSeedSameEvents(t *testing.T) {
	digest := func(seed uint64) uint64 {
		h := fnv.New64a()
		cfg, plan := virtualtest.Swarm(seed)
		out, err := virtual.Run(cfg, plan, seed, func(e history.Event) { fmt.Fprintln(h, e) })
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(h, out)
		return h.Sum64()
	}
	seen := map[uint64]uint64{}
	for seed := range uint64(12) {
		first := digest(seed)
		if other, ok := seen[first]; ok {
			t.Errorf("seeds %d and %d give the same events", other, seed)
		}
		seen[first] = seed
	}
	for sum, seed := range seen {
		if again := digest(seed); again != sum {
			t.Errorf("seed %d gave other events the second time", seed)
		}
	}
}

// Events come in order of time, and whatever an instance says is about a lease it was told it holds.
func TestHistoryIsWellFormed(t *testing.T) {
	for seed := range uint64(20) {
		cfg, plan := virtualtest.Swarm(seed)
		var last int64
		held := map[string]int64{}
		alive := map[string]bool{}
		_, err := virtual.Run(cfg, plan, seed, func(e history.Event) {
			if e.T < last {
				t.Fatalf("seed %d: %v at %d after %d", seed, e.Kind, e.T, last)
			}
			last = e.T
			key := e.Instance + " " + e.Session
			switch e.Kind {
			case history.Spawned:
				alive[e.Instance] = true
			case history.Exited:
				delete(alive, e.Instance)
			case history.Acquired:
				held[key] = e.Fence
			case history.Renewed, history.RenewFailed, history.PollStart:
				if held[key] != e.Fence {
					t.Fatalf("seed %d: %v of %s with fence %d at %d, which it does not hold", seed, e.Kind, key, e.Fence, e.T)
				}
			case history.Lost, history.Released:
				if held[key] != e.Fence {
					t.Fatalf("seed %d: %v of %s with fence %d at %d, which it does not hold", seed, e.Kind, key, e.Fence, e.T)
				}
				delete(held, key)
			}
			if e.Node != "" && e.Kind < history.Arrived && !alive[e.Instance] {
				t.Fatalf("seed %d: %v of %s, which does not run", seed, e.Kind, e.Instance)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The scripts themselves and their Go twins give the same history, byte by byte, under every kind of fault.
func TestScriptsAndTwinsGiveTheSameHistory(t *testing.T) {
	for seed := range uint64(20) {
		sums := map[bool]string{}
		for _, lua := range []bool{false, true} {
			cfg, plan := virtualtest.Swarm(seed)
			cfg.Lua = lua
			sum := history.NewSum()
			if _, err := virtual.Run(cfg, plan, seed, func(e history.Event) { sum.Add(&e) }); err != nil {
				t.Fatal(err)
			}
			sums[lua] = sum.String()
		}
		if sums[false] != sums[true] {
			t.Errorf("seed %d: the twins give %s, the scripts %s", seed, sums[false], sums[true])
		}
	}
}
