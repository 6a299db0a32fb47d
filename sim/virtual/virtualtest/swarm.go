package virtualtest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

const streamSwarm = 0x737761726d

// swarmKinds is in a fixed order, which seeds of tests depend on. Append later kinds.
var swarmKinds = func() []fault.Kind {
	kinds := []fault.Kind{
		fault.Crash, fault.Terminate, fault.CrashAll, fault.Freeze, fault.CheckSend, fault.Join, fault.Leave,
		fault.Cut, fault.BlackHole, fault.RequestsLost, fault.RepliesLost, fault.Latency, fault.Bandwidth, fault.Fragments,
		fault.Flapping, fault.Duplicate, fault.Reorder,
		fault.RedisOutage, fault.RedisRestart, fault.RedisWipe, fault.RedisFlush, fault.RedisFreeze, fault.RedisSlow,
		fault.RedisLoading, fault.RedisReadOnly, fault.RedisMemory, fault.RedisFailover, fault.ClientKill, fault.KeyDelete,
		fault.SessionAdd, fault.SessionRemove, fault.SessionPause, fault.PollSlow, fault.PollHang,
		fault.ClockDrift, fault.RedisNoPerm, fault.RedisNoReplicas, fault.RedisMisconf,
	}
	for _, k := range fault.VirtualKinds() {
		if !slices.Contains(append(kinds, fault.ClockStep, fault.Suspend, fault.ScriptFlush, fault.BeatStale), k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}()

// Swarm draws a run: its size, timings, network, clocks and kinds of faults. Runs that each lack some kinds get further than runs with all.
// Each run keeps within the assumptions of the guarantees (rates within the margin, no steps of a running Redis clock), and ends with a
// calm of five TTLs.
func Swarm(seed uint64) (virtual.Config, fault.Plan) {
	r := rand.New(rand.NewPCG(seed, streamSwarm))
	ttl := []time.Duration{3 * time.Second, 30 * time.Second, 30 * time.Second, 10 * time.Second}[r.IntN(4)]
	c := virtual.Config{
		Nodes: 2 + r.IntN(9), Sessions: 1 + r.IntN(60), TTL: ttl,
		Poll: ttl / 6, Serve: ttl / 1000,
		Storm: ttl * time.Duration(4+r.IntN(9)), Calm: 5 * ttl,
		Unannounced: r.IntN(8) == 0,
	}
	if r.IntN(4) == 0 {
		c.Poll = 0
	}
	if r.IntN(2) == 0 {
		c.Net = virtual.Net{Jitter: time.Duration(r.Int64N(int64(20 * time.Millisecond))), Spike: ttl / 20}
	}
	if r.IntN(2) == 0 {
		c.Net.Late, c.Net.Double = 500_000, r.Int64N(100_000)
	}
	if r.IntN(3) == 0 {
		c.Net.Lost, c.Net.Mute = r.Int64N(20_000), r.Int64N(200_000)
	}
	if r.IntN(2) == 0 {
		c.Clock = virtual.Clock{Drift: 4_000, Offset: time.Hour, Late: time.Duration(r.Int64N(int64(5 * time.Millisecond)))}
	}
	return c, swarmPlan(r, c, seed)
}

func swarmPlan(r *rand.Rand, c virtual.Config, seed uint64) fault.Plan {
	var kinds []fault.Kind
	for _, k := range swarmKinds {
		if r.IntN(3) == 0 {
			kinds = append(kinds, k)
		}
	}
	// Trust windows do not cover a wall clock that steps back while the machine sleeps, so draw only one.
	kinds = append(kinds, []fault.Kind{fault.ClockStep, fault.Suspend}[r.IntN(2)])
	p := fault.Plan{Seed: seed}
	stay := c.Nodes
	for range r.IntN(26) {
		f := swarmFault(r, c, kinds[r.IntN(len(kinds))])
		if f.Kind == fault.Leave || f.Kind == fault.Crash && f.For == 0 {
			if stay--; stay < 2 {
				f.Kind = fault.Join // a fleet of nobody has nothing to show
			}
		}
		p.Faults = append(p.Faults, f)
	}
	slices.SortStableFunc(p.Faults, func(a, b fault.Fault) int { return int(a.At - b.At) })
	return p
}

// swarmFault draws a fault of the kind, with wilder amounts than in judged plans. Amounts not set here are of a usual size.
func swarmFault(r *rand.Rand, c virtual.Config, k fault.Kind) fault.Fault {
	ttl := int64(c.TTL / time.Millisecond)
	f := fault.Fault{Kind: k, At: time.Duration(r.Int64N(int64(c.Storm))).Truncate(time.Millisecond)}
	f.For = (time.Duration(r.Int64N(int64(2*c.TTL))) + time.Millisecond).Truncate(time.Millisecond)
	if r.IntN(3) == 0 {
		f.For = (f.For / 50).Truncate(time.Millisecond) + time.Millisecond
	}
	switch k {
	case fault.Latency:
		f.Ms = 1 + r.Int64N(ttl/8)
		f.Jitter = r.Int64N(f.Ms)
	case fault.Bandwidth:
		f.KBps = 1 + r.Int64N(50)
	case fault.RedisFailover:
		f.Ms, f.Jitter = r.Int64N(ttl), r.Int64N(ttl/2)
		f.For /= 4
	case fault.SessionAdd:
		f.Ms = 1 + r.Int64N(5)
	case fault.PollSlow:
		f.Ms = 1 + r.Int64N(ttl/2)
	case fault.RedisNoPerm:
		f.Deny = []string{fault.DenyFences, fault.DenyLeases, fault.DenySet}[r.IntN(3)]
	case fault.ClockStep:
		f.Ms, f.Jitter = r.Int64N(4*ttl), r.Int64N(2)
	case fault.ClockDrift:
		f.Ms, f.Jitter = r.Int64N(5_000), r.Int64N(2)
	case fault.RedisWipe, fault.Crash:
		if r.IntN(4) == 0 {
			f.For = 0
		}
	default:
		if k.TakesMs() {
			f.Ms = 1 + r.Int64N(ttl/4)
		}
	}
	return f
}
