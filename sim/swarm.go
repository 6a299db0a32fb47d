package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// DrawVersion is the version of the draws. Any change after which a seed gives another run raises it. Changes of the tested code do not,
// because seeds exist to run that code again.
const DrawVersion = 5

const streamSwarm = 0x6578706c6f7265

// Swarm returns the seed's run on the virtual engine. It draws everything that the scenario leaves open: counts (mostly small), timings,
// network, clocks, and kinds and density of faults. Runs that each omit some kinds reach deeper states than runs with every kind.
//
// Swarm draws even unused values, so that setting one changes no other. Every run keeps the assumptions of the guarantees: clock rates
// are within the margin, and no machine both sleeps and steps its wall clock back.
func (s Scenario) Swarm(seed uint64) (Config, fault.Plan, error) {
	r := rand.New(rand.NewPCG(seed, streamSwarm))
	d := drawSwarm(r)
	edges := d.edges(seed)
	s.Engine, s.Seed = EngineVirtual, seed
	if s.Name == "" {
		s.Name = "swarm"
	}
	def(&s.Nodes, d.nodes)
	if known := systems[cmp.Or(s.System, SystemPolling)]; known != nil {
		def(&s.Sessions, min(known.drawn(d.sessions), known.sessionsMax))
	}
	if s.Timings == (Timings{}) && s.Fixed == (Fixed{Duration: s.Fixed.Duration}) {
		s.Timings = d.timings()
	}
	if s.Duration == 0 && s.Fixed.Duration == 0 {
		s.Fixed.Duration = d.duration()
	}
	if s.Virtual == (Virtual{}) {
		s.Virtual = d.virtual
	}
	if seed == 0 {
		s.Seed = 1 // Resolve would replace 0; the draws still use 0
	}
	c, err := s.Resolve()
	if err != nil {
		return Config{}, fault.Plan{}, err
	}
	if c.Plan != nil {
		return c, *c.Plan, nil
	}
	if c.replicated() {
		d.kinds = append(d.kinds, drawServerKinds(seed)...)
	}
	c.Faults = fault.Wanted(c.Faults, slices.DeleteFunc(d.kinds, func(k fault.Kind) bool { return c.pointless(k) != nil }))
	if len(c.Faults) == 0 {
		c.Faults = []fault.Kind{fault.Crash}
	}
	plan, err := c.drawn(fault.DrawParams{
		Nodes: c.Nodes, Sessions: c.Sessions, Timings: c.Timings, Storm: c.Storm, Leader: c.System == SystemElection, Owns: c.owns(),
		Kinds: c.Faults, Virtual: true, Rate: d.rate, Mixed: d.mixed,
	})
	if c.Virtual.Emptied != "" {
		plan.Faults = newcomersFirst(&c, seed, plan.Faults)
	}
	if edges != nil {
		stepsAtMargin(edges, c.TTL, plan.Faults)
	}
	return c, plan, err
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

type swarm struct {
	nodes, sessions int
	ttl             time.Duration
	renew           time.Duration
	storm           int // in TTLs
	virtual         Virtual
	kinds           []fault.Kind
	rate            float64
	mixed           bool // no lone injections
}

const (
	smallNodes, smallSessions = 8, 40
	largeNodes, largeSessions = 50, 1_000
	largeEvery                = 100
)

func drawSwarm(r *rand.Rand) swarm {
	d := swarm{nodes: 2 + r.IntN(smallNodes-1), sessions: 1 + r.IntN(smallSessions)}
	if nodes, sessions := 2+r.IntN(largeNodes-1), 1+r.IntN(largeSessions); r.IntN(largeEvery) == 0 {
		d.nodes, d.sessions = nodes, sessions
	}
	d.ttl = []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second, 30 * time.Second}[r.IntN(4)]
	d.renew = d.ttl / time.Duration([]int{3, 3, 3, 4, 5}[r.IntN(5)])
	d.storm = 5 + r.IntN(8)
	d.virtual = drawVirtual(r, d.ttl)
	d.mixed = r.IntN(2) == 0
	d.rate = 0.25 + r.Float64()*1.75
	d.kinds = drawKinds(r, d.mixed)
	return d
}

// One in edgeEvery runs works at the edges of the guarantees, because uniform draws seldom reveal a margin that is a tenth too small, or
// a script without its epoch check. Edges do not alter the draws of other runs.
const (
	edgeEvery   = 5
	edgePPM     = 300_000
	streamEdges = 0x6564676573
)

// edges draws whether the run works at the edges. If so, it returns the generator of further draws, otherwise nil.
func (d *swarm) edges(seed uint64) *rand.Rand {
	r := rand.New(rand.NewPCG(seed, streamEdges))
	if r.IntN(edgeEvery) != 0 {
		return nil
	}
	d.virtual.Net.Edge = edgePPM
	// Each clock is off by 0.5 %, so Redis and an instance can differ by the margin's 1 %.
	d.virtual.Clock = virtual.Clock{Drift: 5_000, Edge: true, Offset: time.Hour, Late: d.virtual.Clock.Late}
	return r
}

const streamEmpty = 0x656d707479

// newcomersFirst empties Redis while one owner is cut off and all other processes restart. The first process to reach the empty Redis
// knows no epoch and may regard Redis as new.
func newcomersFirst(c *Config, seed uint64, faults []fault.Fault) []fault.Fault {
	r := rand.New(rand.NewPCG(seed, streamEmpty))
	step := (c.TTL / 20).Truncate(time.Millisecond)
	at := time.Duration(r.Int64N(int64(max(c.Storm-c.TTL, time.Second)))).Truncate(time.Millisecond)
	loss := fault.Fault{Kind: fault.RedisWipe, At: at + 2*step, Target: fault.Redis, For: step}
	if c.Virtual.Emptied == redis.EmptiedByKeys {
		loss.Kind, loss.For = fault.RedisFlush, 0
	}
	var there []string
	for slot := 1; slot <= c.Nodes; slot++ {
		name := fault.NodeTarget(slot)
		if !slices.ContainsFunc(faults, func(f fault.Fault) bool {
			return f.Target == name && f.Kind.Has(fault.Kills|fault.Stops) && f.At <= at+6*step
		}) {
			there = append(there, name)
		}
	}
	own := []fault.Fault{loss}
	for i, name := range there {
		f := fault.Fault{Kind: fault.BlackHole, At: at, Target: name, For: 6 * step}
		if i > 0 {
			f.Kind, f.At, f.For = fault.Crash, at+step, 3*step
		}
		own = append(own, f)
	}
	faults = slices.DeleteFunc(faults, func(f fault.Fault) bool { // they would hit a process that does not run
		return f.At >= at && f.At <= at+6*step && slices.ContainsFunc(own, func(o fault.Fault) bool { return o.Target == f.Target })
	})
	faults = append(faults, own...)
	slices.SortStableFunc(faults, func(a, b fault.Fault) int { return cmp.Compare(a.At, b.At) })
	return faults
}

// stepsAtMargin makes clocks step by the margin of a trust window, give or take 1 ms.
func stepsAtMargin(r *rand.Rand, ttl time.Duration, faults []fault.Fault) {
	margin := max(ttl/100, 5*time.Millisecond).Milliseconds()
	for i := range faults {
		if f := &faults[i]; f.Kind == fault.ClockStep && r.IntN(3) > 0 {
			f.Ms = margin + int64(r.IntN(3)-1)
		}
	}
}

func (d swarm) timings() Timings {
	return Timings{
		TTL: d.ttl, Renew: d.renew, Heartbeat: d.renew, Discovery: d.ttl / 3, Poll: d.ttl / 6, PollTimeout: d.ttl / 6,
		Serve: max(d.ttl/1000, 2*time.Millisecond),
	}
}

func (d swarm) duration() time.Duration { return time.Duration(d.storm)*d.ttl + 2*d.ttl + time.Second }

func drawVirtual(r *rand.Rand, ttl time.Duration) (v Virtual) {
	// Delays stay within the allowances of the guarantees. Longer ones are faults (latency), which the judge knows.
	jitter := time.Duration(r.Int64N(int64(10 * time.Millisecond)))
	if r.IntN(2) == 0 {
		v.Net.Jitter, v.Net.Spike = jitter, min(ttl/100, 30*time.Millisecond)
	}
	doubled := r.Int64N(100_000)
	if r.IntN(2) == 0 {
		v.Net.Late, v.Net.Double = 500_000, doubled
	}
	late := time.Duration(r.Int64N(int64(5 * time.Millisecond)))
	if r.IntN(2) == 0 {
		v.Clock = virtual.Clock{Drift: 4_000, Offset: time.Hour, Late: late}
	}
	return v
}

const streamServers = 0x736572766572

// drawServerKinds draws the faults of servers for a Redis with replicas. Its separate stream keeps the seed's other draws unchanged.
func drawServerKinds(seed uint64) []fault.Kind {
	r := rand.New(rand.NewPCG(seed, streamServers))
	return slices.DeleteFunc(fault.ServerKinds(), func(fault.Kind) bool { return r.IntN(3) == 0 })
}

// drawKinds draws the kinds of a run. Runs with lone injections get more kinds, because each kind needs its own time.
func drawKinds(r *rand.Rand, mixed bool) []fault.Kind {
	// Trust windows do not cover a wall clock that steps back while the machine sleeps, so draw only one of the two.
	never := []fault.Kind{fault.ClockStep, fault.Suspend}[r.IntN(2)]
	var kinds []fault.Kind
	for _, k := range fault.VirtualKinds() {
		drawn := r.IntN(3)
		if k != never && (drawn == 0 || !mixed && drawn == 1) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		kinds = append(kinds, fault.Crash)
	}
	return kinds
}
