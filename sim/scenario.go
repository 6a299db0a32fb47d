package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/report"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Scenario says what a storm is made of. The zero value is the default run; so is every field that is zero. All durations
// are those of a run at speed 1 and are divided by Speed, except those in Fixed.
type Scenario struct {
	Name        string // [a-z0-9-], part of the run folder's name; "storm" if empty
	Description string // one line, shown by "simulate scenarios"
	Engine      string // EngineReal or EngineVirtual; EngineReal if empty
	Topology    string // of Redis: TopologySingle (if empty), TopologySentinel or TopologyCluster
	Replicas    *int   // where it has some, how many instances are told of; nil: ReplicasDefault; 0: of none, and there are two
	System      string // SystemPolling if empty
	Nodes       int    // processes at the start
	Sessions    int    // polling sessions at the start
	Timings     Timings
	LongPolls   bool          // a poll may take longer than the TTL
	APILeases   string        // of intents: which slots are in phase 1 of the migration: APILeasesOff (if empty), On, Mixed
	Speed       float64       // if zero 10, on the virtual engine 1
	Duration    time.Duration // storm and calm
	Seed        uint64        // drawn if zero
	Faults      []fault.Kind  // kinds to draw the plan from; all usual ones if empty, or without those with a minus (fault.Wanted)
	Plan        []fault.Fault // the plan itself, or with Faults what comes before the plan that is drawn; drawn if nil
	Criteria    []string      // guarantees that decide; if empty those that the plan can exercise, and any that breaks
	NodeCmd     []string      // the node: NAME=value …, its program and arguments (NodeCommand); the reference node if empty
	Virtual     Virtual       // for the virtual engine only

	Fixed Fixed // durations that Speed does not divide

	source *ast.File // of a scenario file: where each key stands
	path   string
}

// Timings are the durations that the nodes work with. Those of a Scenario that are 0 have a default, at speed 1: TTL 30 s, Renew a third
// of it, RenewTimeout a tenth, which is not chosen, Heartbeat as Renew, Discovery a third of TTL, as the nodes' own default is, Poll
// 5 s, PollTimeout Poll or a third of TTL, whichever is less, Serve 100 ms.
type Timings = timing.Timings

// Fixed are durations taken as written, whatever the speed. Each that is not zero takes the place of the scenario's own.
type Fixed struct {
	Duration, TTL, Renew, Poll time.Duration
}

// Config is a Scenario with every parameter set. It comes from Scenario.Resolve only.
type Config struct {
	Name, Engine    string
	Topology        string
	Replicas        int
	System          string
	Nodes, Sessions int

	Timings

	LongPolls bool
	APILeases string

	Speed       float64
	Storm, Calm time.Duration
	Seed        uint64
	Faults      []fault.Kind // to draw from, as in Scenario
	First       *fault.Plan  // hits before what is drawn; nil: nothing does
	Plan        *fault.Plan  // nil: drawn when the engine is known
	Criteria    []string
	NodeCmd     []string
	Virtual     Virtual
}

// Duration is the length of the run: storm and calm.
func (c Config) Duration() time.Duration { return c.Storm + c.Calm }

// Defaults of a Scenario.
const (
	NameDefault     = "storm"
	NodesDefault    = 10
	SessionsDefault = 100
	SpeedDefault    = 10.0

	SpeedDefaultVirtual = 1.0
	TTLDefault          = 30 * time.Second // at speed 1, as the durations below
	PollDefault         = 5 * time.Second
	ServeDefault        = 100 * time.Millisecond
	DurationMinDefault  = 60 * time.Second // a default run is never shorter, whatever the speed
	DurationDefault     = 5 * time.Minute  // at speed 1
)

// Bounds of a Scenario's numbers. They keep a typing error from taking the machine down.
const (
	NodesMax        = 500
	NodesMaxVirtual = 10_000
	SessionsMax     = 200_000
	SpeedMin        = 0.1
	SpeedMax        = 60.0
	TTLMin          = 500 * time.Millisecond
	TTLMax          = time.Hour
	DurationMin     = 2 * time.Second
	DurationMax     = 24 * time.Hour
)

// ErrInvalid means that a scenario contradicts itself or is out of bounds.
var ErrInvalid = errors.New("invalid scenario")

// KeyError says which key of a scenario is wrong and what is allowed. errors.Is(err, ErrInvalid) holds.
type KeyError struct {
	Key string // as in a scenario file: "nodes", "timings.ttl", "plan[2]"
	Err error  // the sentence
}

// Error returns the sentence, with the key first.
func (e *KeyError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap returns the cause and ErrInvalid.
func (e *KeyError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

func wrong(key, format string, args ...any) error {
	return &KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}

// Resolve fills in what is not given, divides by the speed and refuses contradictions with a KeyError (in a scenario file
// it begins with file, line and column).
func (s Scenario) Resolve() (Config, error) {
	c, err := s.resolve()
	if err != nil {
		return Config{}, s.locate(err)
	}
	return c, nil
}

func (s Scenario) resolve() (Config, error) {
	c := Config{
		Name: cmp.Or(s.Name, NameDefault), System: cmp.Or(s.System, SystemPolling), Engine: cmp.Or(s.Engine, EngineReal),
		Nodes: cmp.Or(s.Nodes, NodesDefault), Sessions: s.Sessions,
		LongPolls: s.LongPolls, APILeases: s.APILeases, Speed: s.Speed, Seed: s.Seed,
		Faults: s.Faults, Criteria: s.Criteria, NodeCmd: s.NodeCmd, Virtual: s.Virtual,
	}
	s.topology(&c)
	if err := c.checkSystem(); err != nil {
		return Config{}, err
	}
	def(&c.Sessions, systems[c.System].sessions)
	if c.Speed == 0 {
		c.Speed = SpeedDefault
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
		c.Seed = uint64(rand.Uint32()) // short enough to be typed again
	}
	return c, s.plan(&c)
}

// timings sets the nodes' durations.
func (s Scenario) timings(c *Config) error {
	// Nodes are told whole milliseconds, so the judge must not know finer ones.
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
	c.TTL = cmp.Or(ms(s.Fixed.TTL), at(cmp.Or(t.TTL, TTLDefault)))
	c.Renew = cmp.Or(ms(s.Fixed.Renew), at(t.Renew), ms(c.TTL/3))
	c.RenewTimeout = ms(c.TTL / 10)
	c.Heartbeat = cmp.Or(at(t.Heartbeat), c.Renew)
	c.Discovery = cmp.Or(at(t.Discovery), ms(c.TTL/3))
	c.Poll = cmp.Or(ms(s.Fixed.Poll), at(cmp.Or(t.Poll, PollDefault)))
	c.PollTimeout = cmp.Or(at(t.PollTimeout), ms(min(c.Poll, c.TTL/3)))
	c.Serve = cmp.Or(at(t.Serve), max(time.Millisecond, ms(min(at(ServeDefault), c.PollTimeout/4))))
	return c.checkTimings()
}

// phases divides the run into storm and calm. The calm is long enough for the last fault's aftermath: a Redis that comes
// back empty at its start is in quarantine for a TTL, then heartbeats, leases and balance need two looks, less than another TTL.
func (s Scenario) phases(c *Config) error {
	total := cmp.Or(s.Fixed.Duration, time.Duration(float64(s.Duration)/c.Speed))
	if total == 0 {
		total = max(DurationMinDefault, time.Duration(float64(DurationDefault)/c.Speed))
	}
	total = total.Truncate(time.Millisecond)
	if total < DurationMin || total > DurationMax {
		return wrong("duration", "%v is out of bounds: %v to %v (flag --duration)", total, DurationMin, DurationMax)
	}
	c.Calm = min(c.TTL*2+time.Second, total/2).Truncate(time.Millisecond)
	c.Storm = total - c.Calm
	return nil
}

// plan checks a plan given by hand.
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
	var odd error // that no such system is hit so
	sound := len(s.Plan)
	for i, f := range s.Plan {
		if odd = c.pointless(f.Kind); odd != nil {
			sound = i
			break
		}
		f.At, f.For = div(f.At), div(f.For)
		p.Faults[i] = f.AmountsAt(c.Speed)
	}
	if upTo(sound) != nil { // each of the first ones that are not valid together: whose fault is it?
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

// limits are what a plan of the run must keep.
func (c Config) limits() fault.Limits {
	return fault.Limits{Nodes: c.Nodes, Sessions: c.Sessions, Storm: c.Storm, Virtual: c.onVirtual()}
}

// Draw returns the run's plan: the one given, or the one that its seed gives from the kinds for which supported returns
// nil. A kind that was named and is not supported is an error; one that was not named is left out.
func (c Config) Draw(supported func(fault.Kind) error) (fault.Plan, error) {
	if c.Plan != nil {
		for i, f := range c.Plan.Faults {
			if err := supported(f.Kind); err != nil {
				return fault.Plan{}, wrong(fmt.Sprintf("plan[%d]", i), "%w", err)
			}
		}
		return *c.Plan, nil
	}
	var usual []fault.Kind
	for _, k := range append(fault.DefaultKinds(), fault.ServerKinds()...) {
		if supported(k) == nil && c.pointless(k) == nil {
			usual = append(usual, k)
		}
	}
	kinds := fault.Wanted(c.Faults, usual)
	for _, k := range kinds {
		if err := supported(k); err != nil {
			return fault.Plan{}, wrong("faults", "%w", err)
		}
	}
	plan, err := c.drawn(fault.DrawParams{
		Nodes: c.Nodes, Sessions: c.Sessions, Timings: c.Timings, Storm: c.Storm, Leader: c.System == SystemElection, Owns: c.owns(),
		Kinds: kinds, Virtual: c.onVirtual(),
		Mixed: c.replicated(), // what hits alone is for limits in time, which faults of servers have none of their own
	})
	if n := len(plan.Faults); err == nil && n > report.FaultsMax {
		return fault.Plan{}, wrong("duration", "a storm of %d faults could not be read again, at most %d: a shorter one (--duration), one "+
			"with a longer TTL (--ttl), or fewer nodes (--nodes)", n, report.FaultsMax)
	}
	return plan, err
}
