package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// Scenario describes a storm. Zero fields take their defaults. Durations hold for speed 1 and are divided by Speed, except Fixed.
type Scenario struct {
	Name        string // [a-z0-9-], part of the run folder's name; default "storm"
	Description string // one line, shown by "simulate scenarios"
	Engine      string // EngineReal (default) or EngineVirtual
	Topology    string // of Redis: TopologySingle (default), TopologySentinel or TopologyCluster
	Replicas    *int   // number of replicas that instances know; nil: DefaultReplicas; 0: none, although Redis has two
	System      string // default SystemPolling
	Nodes       int    // processes at the start
	Sessions    int    // polling sessions at the start
	Timings     Timings
	LongPolls   bool          // a poll may take longer than the TTL
	APILeases   string        // slots of intents in phase 1 of the migration: APILeasesOff (default), On, Mixed
	Speed       float64       // default 10, on the virtual engine 1
	Duration    time.Duration // storm and calm
	Seed        uint64        // default random
	Faults      []fault.Kind  // kinds to draw from, or with a minus kinds to omit from the usual ones (fault.Wanted); default the usual ones
	Plan        []fault.Fault // the plan or, with Faults, its part before the drawn plan; nil: drawn
	Criteria    []string      // deciding guarantees; default those that the plan can exercise, and all that break
	NodeCmd     []string      // NAME=value …, program and arguments of a node (NodeCommand); default the reference node
	Virtual     Virtual       // for the virtual engine only

	Fixed Fixed // durations that Speed does not divide

	source *source // of a scenario file; nil: none
}

// Fixed holds durations that the speed does not divide. A nonzero one replaces the scenario's own.
type Fixed struct {
	Duration, TTL, Renew, Poll time.Duration
}

// Resolve sets the defaults, divides by the speed and refuses contradictions with a KeyError. For a file, the error has line and column.
func (s Scenario) Resolve() (Config, error) {
	c, err := s.resolve()
	if err != nil {
		return Config{}, s.source.locate(err)
	}
	return c, nil
}

func (s Scenario) resolve() (Config, error) {
	c := Config{
		Name: cmp.Or(s.Name, DefaultName), System: cmp.Or(s.System, SystemPolling), Engine: cmp.Or(s.Engine, EngineReal),
		Nodes: cmp.Or(s.Nodes, DefaultNodes), Sessions: s.Sessions,
		LongPolls: s.LongPolls, APILeases: s.APILeases, Speed: s.Speed, Seed: s.Seed,
		Faults: s.Faults, Criteria: s.Criteria, NodeCmd: s.NodeCmd, Virtual: s.Virtual,
	}
	s.topology(&c)
	if err := c.checkSystem(); err != nil {
		return Config{}, err
	}
	c.Sessions = cmp.Or(c.Sessions, systems[c.System].sessions)
	if c.Speed == 0 {
		c.Speed = DefaultSpeed
		if c.onVirtual() {
			c.Speed = SpeedDefaultVirtual
		}
	}
	if err := c.checkEngine(); err != nil {
		return Config{}, err
	}
	if err := c.checkCounts(); err != nil {
		return Config{}, err
	}
	if err := s.timings(&c); err != nil {
		return Config{}, err
	}
	if err := s.phases(&c); err != nil {
		return Config{}, err
	}
	if i, err := fault.CheckKinds(c.Faults, c.onVirtual(), c.pointless); err != nil {
		return Config{}, wrong(fmt.Sprintf("faults[%d]", i), "%w", err)
	}
	for c.Seed == 0 {
		c.Seed = uint64(rand.Uint32()) // short enough to type
	}
	return c, s.plan(&c)
}

func (s Scenario) timings(c *Config) error {
	// Nodes get whole milliseconds, so the judge must use the same.
	ms := func(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }
	at := func(d time.Duration) time.Duration { return ms(time.Duration(float64(d) / c.Speed)) }
	t := s.Timings
	for _, g := range []struct {
		key          string
		given, value time.Duration
	}{
		{"ttl", s.Fixed.TTL, ms(s.Fixed.TTL)}, {"renew", s.Fixed.Renew, ms(s.Fixed.Renew)}, {"poll", s.Fixed.Poll, ms(s.Fixed.Poll)},
		{"timings.ttl", t.TTL, at(t.TTL)}, {"timings.renew", t.Renew, at(t.Renew)}, {"timings.heartbeat", t.Heartbeat, at(t.Heartbeat)},
		{"timings.discovery", t.Discovery, at(t.Discovery)}, {"timings.poll", t.Poll, at(t.Poll)},
		{"timings.pollTimeout", t.PollTimeout, at(t.PollTimeout)}, {"timings.serve", t.Serve, at(t.Serve)},
	} {
		if g.given != 0 && g.value == 0 {
			return wrong(g.key, "%v at speed %g is less than a millisecond, which is the least a node can be told", g.given, c.Speed)
		}
	}
	c.TTL = cmp.Or(ms(s.Fixed.TTL), at(cmp.Or(t.TTL, DefaultTTL)))
	c.Renew = cmp.Or(ms(s.Fixed.Renew), at(t.Renew), ms(c.TTL/3))
	c.RenewTimeout = ms(c.TTL / 10)
	c.Heartbeat = cmp.Or(at(t.Heartbeat), c.Renew)
	c.Discovery = cmp.Or(at(t.Discovery), ms(c.TTL/3))
	c.Poll = cmp.Or(ms(s.Fixed.Poll), at(cmp.Or(t.Poll, DefaultPoll)))
	c.PollTimeout = cmp.Or(at(t.PollTimeout), ms(min(c.Poll, c.TTL/3)))
	c.Serve = cmp.Or(at(t.Serve), max(time.Millisecond, ms(min(at(DefaultServe), c.PollTimeout/4))))
	return c.checkTimings()
}

// phases divides the run into storm and calm. The calm covers the last fault's aftermath: up to a TTL of quarantine of an empty Redis,
// then two discoveries, less than a TTL, for heartbeats, leases and balance.
func (s Scenario) phases(c *Config) error {
	total := cmp.Or(s.Fixed.Duration, time.Duration(float64(s.Duration)/c.Speed))
	if total == 0 {
		total = max(DefaultDurationMin, time.Duration(float64(DefaultDuration)/c.Speed))
	}
	total = total.Truncate(time.Millisecond)
	if total < DurationMin || total > DurationMax {
		return wrong("duration", "%v is out of bounds: %v to %v (flag --duration)", total, DurationMin, DurationMax)
	}
	c.Calm = min(c.TTL*2+time.Second, total/2).Truncate(time.Millisecond)
	c.Storm = total - c.Calm
	return nil
}

func (s Scenario) plan(c *Config) error {
	if s.Plan == nil {
		return nil
	}
	p := fault.Plan{Version: fault.Version, Seed: 0, Faults: make([]fault.Fault, len(s.Plan))}
	div := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) / c.Speed).Truncate(time.Millisecond)
	}
	upTo := func(n int) error {
		return fault.Plan{Faults: p.Faults[:n]}.Validate(c.limits())
	}
	var odd error // the system has no such fault
	sound := len(s.Plan)
	for i, f := range s.Plan {
		if odd = c.pointless(f.Kind); odd != nil {
			sound = i
			break
		}
		f.At, f.For = div(f.At), div(f.For)
		p.Faults[i] = f.AmountsAt(c.Speed)
	}
	if upTo(sound) != nil { // find the first fault that makes the plan invalid
		first := sort.Search(sound, func(i int) bool { return upTo(i+1) != nil })
		return wrong(fmt.Sprintf("plan[%d]", first), "%w", upTo(first+1))
	}
	if odd != nil {
		return wrong(fmt.Sprintf("plan[%d]", sound), "%w", odd)
	}
	if len(c.Faults) > 0 {
		c.First = &p
	} else {
		c.Plan = &p
	}
	return nil
}

func (s Scenario) topology(c *Config) {
	c.Topology = cmp.Or(s.Topology, TopologySingle)
	switch {
	case s.Replicas != nil:
		c.Replicas = *s.Replicas
	case c.replicated():
		c.Replicas = DefaultReplicas
	}
}
