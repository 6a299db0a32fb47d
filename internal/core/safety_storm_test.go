package core_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// How many runs of the swarm TestStormSwarm makes: few enough for every day. A search is
//
//	go test ./internal/core -run StormSwarm -seeds 5000 -from 100000
//
// and a seed that it finds is looked at with
//
//	go test ./sim/virtual -run Trace -v -look SEED -from 17s -to 19s -node node-1
var (
	stormSeeds = flag.Int("seeds", 300, "runs of the swarm")
	stormFrom  = flag.Uint64("from", 0, "first seed of the swarm")
)

// Whatever a plan breaks, no two trust windows overlap, no fence falls and nothing is polled without trust (G1, G3, G4);
// and once everything is healed, every session is owned, the fleet is balanced, and then nothing moves any more (G6).
func TestStormSwarm(t *testing.T) {
	for seed := *stormFrom; seed < *stormFrom+uint64(*stormSeeds); seed++ {
		cfg, plan := virtualtest.Swarm(seed)
		r := play(t, cfg, plan, seed)
		if r.out.Alive == 0 {
			continue
		}
		calm := time.Duration(r.out.VirtualNs) - cfg.Calm
		if late := r.moves(calm+3*cfg.TTL, calm+cfg.Calm); len(late) > 0 {
			t.Errorf("%s: %d moves more than 3 TTLs into the calm, the first %+v\n%s", r.name, len(late), late[0], planText(plan))
		}
		least, most := 1<<30, 0
		for i, n := range r.out.Owned {
			if r.out.Living[i] {
				least, most = min(least, n), max(most, n)
			}
		}
		if r.out.Unowned > 0 || r.out.Misowned > 0 || most-least > 1 {
			t.Errorf("%s: after the calm %d sessions are unowned, %d owned that should not be, owned by slot %v\n%s",
				r.name, r.out.Unowned, r.out.Misowned, r.out.Owned, planText(plan))
		}
	}
}

// Messages late by up to three TTLs, most answers lost, many twice: nothing gets done, and nothing wrong.
func TestStormMessagesOfAnyDelay(t *testing.T) {
	var acquired uint64
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		ttl := 3 * time.Second
		cfg := virtual.Config{
			Nodes: 2 + r.IntN(3), Sessions: 1 + r.IntN(6), TTL: ttl, Poll: ttl / 6, Storm: 40 * ttl, Calm: 5 * ttl,
			Net: virtual.Net{
				Jitter: []time.Duration{ttl / 30, ttl / 10, ttl / 3, 3 * ttl}[seed%4],
				Late:   1_000_000, Double: 300_000, Lost: r.Int64N(200_000), Mute: 300_000,
			},
		}
		plan := fault.Plan{}
		for at := ttl; at < cfg.Storm; at += time.Duration(r.Int64N(int64(6 * ttl))) {
			kind := []fault.Kind{fault.RedisFlush, fault.RedisWipe, fault.RedisRestart, fault.RedisFailover}[r.IntN(4)]
			f := fault.Fault{At: at, Kind: kind, For: ttl / 10}
			if kind == fault.RedisFailover {
				f.Ms, f.Jitter = r.Int64N(ttl.Milliseconds()), r.Int64N(ttl.Milliseconds()/2)
			}
			plan.Faults = append(plan.Faults, f)
		}
		acquired += play(t, cfg, plan, seed).out.Acquires
	}
	if acquired == 0 {
		t.Error("no run acquired anything: nothing was tried")
	}
}
