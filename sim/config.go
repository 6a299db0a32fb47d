package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/timing"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// Names of the engines.
const (
	EngineReal    = "real"    // processes, sockets, Redis
	EngineVirtual = "virtual" // one event loop: the same rules with virtual clocks, network and Redis
)

// Config is a Scenario with every parameter set. Only Scenario.Resolve creates one.
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
	Faults      []fault.Kind // kinds to draw from, as in Scenario
	First       *fault.Plan  // faults before the drawn plan; nil: none
	Plan        *fault.Plan  // nil: drawn when the engine is open
	Criteria    []string
	NodeCmd     []string
	Virtual     Virtual
}

// Duration is the length of the storm and of the calm after it.
func (c Config) Duration() time.Duration { return c.Storm + c.Calm }

func (c Config) onVirtual() bool { return c.Engine == EngineVirtual }

func (c Config) limits() fault.Limits {
	return fault.Limits{Nodes: c.Nodes, Sessions: c.Sessions, Storm: c.Storm, Virtual: c.onVirtual()}
}

// Timings are the nodes' durations. Defaults at speed 1: TTL 30 s, Renew TTL / 3, RenewTimeout TTL / 10 (fixed), Heartbeat as Renew,
// Discovery TTL / 3, Poll 5 s, PollTimeout the smaller of Poll and TTL / 3, Serve 100 ms.
type Timings = timing.Timings

// Virtual describes the network and clocks of the virtual engine without faults. The zero value is perfect and exact. Speed does not
// divide it.
type Virtual struct {
	Unannounced bool `yaml:"unannounced,omitempty"` // Redis was not bootstrapped, so the run begins with a quarantine
	// Local instances reach Redis at a loopback address, so an unused Redis grants at once. Emptied is the state after a wipe or flush.
	Local   bool          `yaml:"local,omitempty"`
	Emptied redis.Emptied `yaml:"emptied,omitempty"`

	Net   virtual.Net   `yaml:"net,omitempty"`
	Clock virtual.Clock `yaml:"clock,omitempty"`
}

// Defaults of a Scenario.
const (
	DefaultName     = "storm"
	DefaultNodes    = 10
	DefaultSessions = 100
	DefaultSpeed    = 10.0

	SpeedDefaultVirtual = 1.0
	DefaultTTL          = 30 * time.Second // at speed 1, as the durations below
	DefaultPoll         = 5 * time.Second
	DefaultServe        = 100 * time.Millisecond
	DefaultDurationMin  = 60 * time.Second // minimum of a default run, at any speed
	DefaultDuration     = 5 * time.Minute  // at speed 1
)

// Bounds of a Scenario's numbers. They keep a typing error from overloading the machine.
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

// KeyError names the wrong key of a scenario and the allowed values. It wraps ErrInvalid.
type KeyError struct {
	Key string // as in a scenario file: "nodes", "timings.ttl", "plan[2]"
	Err error  // the error and the allowed values
}

// Error returns the key and the text of Err.
func (e *KeyError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap returns ErrInvalid and the cause.
func (e *KeyError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

func wrong(key, format string, args ...any) error {
	return &KeyError{Key: key, Err: fmt.Errorf(format, args...)}
}
