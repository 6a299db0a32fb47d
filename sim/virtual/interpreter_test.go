package virtual

import (
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// The scripts themselves and their Go twins give the same history, byte by byte, under every kind of fault.
func TestScriptsAndTwinsGiveTheSameHistory(t *testing.T) {
	for seed := range uint64(20) {
		sums := map[bool]string{}
		for _, lua := range []bool{false, true} {
			cfg, plan := Swarm(seed)
			cfg.Lua = lua
			sum := history.NewSum()
			if _, err := Run(cfg, plan, seed, func(e history.Event) { sum.Add(&e) }); err != nil {
				t.Fatal(err)
			}
			sums[lua] = sum.String()
		}
		if sums[false] != sums[true] {
			t.Errorf("seed %d: the twins give %s, the scripts %s", seed, sums[false], sums[true])
		}
	}
}
