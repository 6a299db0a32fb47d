package core_test

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// counted counts the ops that a fleet sends.
type counted struct {
	*core.Core
	ops *int
}

func (c *counted) Step(ev core.Event) core.Effects {
	eff := c.Core.Step(ev)
	*c.ops += len(eff.Ops)
	return eff
}

// Whatever breaks for a minute, an instance sends no more than a few ops a second on average: nothing is tried again at
// the speed of a round trip, neither against a Redis that refuses nor among instances that see different states.
func TestStormNoHotLoop(t *testing.T) {
	const nodes, opsPerSecond = 10, 20
	for _, f := range []fault.Fault{
		{Kind: fault.RedisReadOnly}, {Kind: fault.RedisMemory}, {Kind: fault.RedisOutage}, {Kind: fault.RedisWipe},
		{Kind: fault.RedisFreeze}, {Kind: fault.RedisLoading, Ms: 60_000}, {Kind: fault.RedisFailover, Ms: 9000},
		{Kind: fault.Cut}, {Kind: fault.BlackHole}, {Kind: fault.RequestsLost}, {Kind: fault.RepliesLost},
		{Kind: fault.Flapping, Ms: 300}, {Kind: fault.Latency, Ms: 2000, Jitter: 1500}, {Kind: fault.Suspend},
	} {
		t.Run(string(f.Kind), func(t *testing.T) {
			f.At, f.For = 10*time.Second, time.Minute
			cfg := virtual.Config{Nodes: nodes, Sessions: 100, Storm: 80 * time.Second, Calm: 20 * time.Second}
			ops := 0
			cfg.New = func(c core.Config) virtual.Machine { return &counted{core.New(c), &ops} }
			r := play(t, cfg, fault.Plan{Faults: []fault.Fault{f}}, 1)
			seconds := int(r.out.VirtualNs / int64(time.Second))
			if rate := ops / seconds / nodes; rate > opsPerSecond {
				t.Errorf("%d ops a second for each instance, want at most %d", rate, opsPerSecond)
			}
		})
	}
}
