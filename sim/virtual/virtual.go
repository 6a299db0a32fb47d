package virtual

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/guest"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/timing"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// Seams alters the data that passes between the parts of a run, to break a guarantee on purpose. Config.New can return a broken core.
type Seams struct {
	Script func(text string) string // a script before compilation (Config.Lua)

	Election func(election.Input, func(election.Input) election.Effects) election.Effects
	Intent   func(intent.Event, func(intent.Event) []intent.Effect) []intent.Effect

	Status func(code int) int // status of an API's answer

	older func(op *core.Op, c redisstore.Call) (text string, keys []string, is bool) // see redisConfig.Older
}

func through[In, Out any](seam func(In, func(In) Out) Out, step func(In) Out) func(In) Out {
	if seam == nil {
		return step
	}
	return func(in In) Out { return seam(in, step) }
}

func altered[T any](seam func(T) T, v T) T {
	if seam == nil {
		return v
	}
	return seam(v)
}

// Election holds the timings of an election; see Config.Election.
type Election struct {
	Interval  time.Duration // between two cycles of a follower; default TTL / 2
	Heartbeat time.Duration // between two heartbeats of the leader; default TTL / 3
}

// Intents configures the intent system; see Config.Intents.
type Intents struct {
	Tuners       int                   // slots that the workers share
	Role         func(slot int) string // "api", "worker" or "both"
	Phase1       func(slot int) bool   // the slot's API acquires the lease of a service itself; nil: none does
	SingleWriter func(slot int) bool   // the slot's worker believes that it is the only one; nil: none does
}

// ErrConfig reports that the configuration contradicts itself. The wrapping error names the field.
var ErrConfig = errors.New("invalid virtual run")

// Machine is the core that the engine drives, or a deliberately broken one.
type Machine interface {
	Step(core.Event) core.Effects
	Next() core.Time
}

// Config is a run's size, timings and environment. Zero fields take their defaults.
type Config struct {
	Nodes    int // instances at the start; at least 1
	Sessions int // unpaused sessions at the start

	TTL       time.Duration // default 30 s
	Renew     time.Duration // default TTL / 3
	Discovery time.Duration // default TTL / 3
	OpTimeout time.Duration // default TTL / 10

	Poll        time.Duration // interval; 0: instances hold leases without polling
	PollTimeout time.Duration // default the smaller of Poll and TTL / 3
	Serve       time.Duration // mean service time of the target, which takes 0.5 to 1.5 times as long; default 5 ms
	LongPolls   bool          // polls may outlast the trust window while renewals succeed

	// Candidates turns placement off. Every instance waits for every session's lease, as in an election, and does so again after a loss.
	Candidates bool
	// With Candidates, an instance releases a lease after Hold (0: never), and wants a lost lease again after Rest.
	Hold, Rest time.Duration

	// Lease is the ID of the only session's lease, such as an election's leader key. It needs Candidates.
	Lease string
	// Election makes every instance take part in an election of Lease's holder.
	Election *Election
	// Intents makes the instances APIs and workers of the intent system. Sessions is then the number of services that clients request.
	Intents *Intents
	// Foreign returns the machine of an instance of another program, or nil for an instance that uses the library.
	Foreign func(Instance) foreign.Machine

	// Guest starts the instances as unmodified programs, which speak the node protocol. They know no Cluster. Output receives what they
	// write to standard error, and may be nil.
	Guest  guest.Starter
	Output func(node string, p []byte)

	Start time.Duration // cold start before the storm; default TTL / 3
	Storm time.Duration // duration of the plan
	Calm  time.Duration // time after the storm, without faults

	// Sentinel gives Redis replicas, watched by sentinels. Cluster gives replicas to each of two shards, one with the leases' slot; a
	// third master only votes. Replicas is lease.Config.Replicas and their number for each master. If 0, there are two, unknown to the
	// instances.
	Sentinel bool
	Cluster  bool
	Replicas int

	Unannounced bool // Redis was not bootstrapped, so the run begins with a quarantine
	// Local: instances reach Redis at a loopback address, so a new one needs no quarantine. Emptied: the state after a wipe or flush.
	Local   bool
	Emptied redis.Emptied

	Net   Net
	Clock Clock

	// Log receives every entry that the production shell would log, including debug entries. An entry is valid until Log returns.
	Log func(*LogEntry)

	// Lua makes an interpreter run the store's .lua files instead of their Go twins. It is slower, and the events must be the same.
	Lua bool
	// Loaded makes Redis know all scripts from the start, as in a fleet that has run for a while.
	Loaded bool

	// New builds an instance's machine, by default core.New. It must be pure.
	New func(core.Config) Machine
	// Tune, if set, changes the argument of New.
	Tune func(*core.Config)
	// Seams alters the data that passes outside the core, in tests.
	Seams Seams
	// Fork, if not 0, is the time since the start of the storm at which the random delays continue from ForkSeed.
	Fork     time.Duration
	ForkSeed uint64
	// Stop ends the run early when it returns true. It is called every few thousand events and must not affect the run otherwise.
	Stop func() bool

	_ struct{}
}

// Instance is a starting process.
type Instance struct {
	Slot  int // from 1
	ID    string
	Delay time.Duration // random start delay, up to a third of the TTL, for programs that have one
}

// Net is the network without faults. Probabilities are in parts per million of the messages.
type Net struct {
	Delay  time.Duration `yaml:"delay,omitempty"`     // minimum, one way; default 100 µs
	Jitter time.Duration `yaml:"jitter,omitempty"`    // maximum extra delay, one way; default 400 µs
	Spike  time.Duration `yaml:"spike,omitempty"`     // maximum extra delay of one message in a thousand
	Late   int64         `yaml:"latePPM,omitempty"`   // an answer after its deadline is delivered instead of dropped
	Double int64         `yaml:"doublePPM,omitempty"` // an answer is delivered twice, the second time up to a TTL later
	Lost   int64         `yaml:"lostPPM,omitempty"`   // a request or an answer is lost
	Mute   int64         `yaml:"mutePPM,omitempty"`   // a notice is lost
	Edge   int64         `yaml:"edgePPM,omitempty"`   // a message moves to a relevant instant, and half of the faults do
}

// LogEntry is one entry of an instance's structured log.
type LogEntry struct {
	Node    string // name of its slot
	Wall    int64  // ns since the epoch, on the instance's own clock
	Level   logentry.Level
	Message string
	Fields  []logentry.Field
}

// Clock is the error of the clocks without faults.
type Clock struct {
	Drift  int64         `yaml:"driftPPM,omitempty"` // maximum rate error of each instance and of Redis, in parts per million
	Edge   bool          `yaml:"edge,omitempty"`     // each rate error is exactly Drift, fast or slow
	Offset time.Duration `yaml:"offset,omitempty"`   // maximum error of each wall clock
	Late   time.Duration `yaml:"late,omitempty"`     // maximum delay of timers; default 200 µs
}

// Outcome is the result of a run.
type Outcome struct {
	Steps     uint64 // events of the loop
	Acquires  uint64 // terms that began
	Renewals  uint64 // leases renewed
	Polls     uint64 // polls that began
	Commands  uint64 // ops and commands that Redis executed
	VirtualNs int64  // true time of the run
	Stopped   bool   // Config.Stop ended the run
	Ready     int    // guests that reported "ready"

	// Fell describes the first process whose rules panicked or looped, with the stack of a panic. Hung: they looped at one instant.
	Fell string
	Hung bool

	// Overlaps counts the moments at which two instances believed in one lease (G1). After a fault deletes a lease's key, overlaps are
	// excused until the owner must have noticed. First describes the first violation.
	Overlaps uint64
	// Falls counts grants whose fence is not higher than all earlier ones (G3), grants of unknown leases, and renewals of terms not held.
	Falls uint64
	First string

	// The state at the end of the calm.
	Alive    int      // running instances that are not stopping
	Living   []bool   // whether the slot has such an instance, by slot
	Unowned  int      // unpaused sessions in which no instance believes
	Owned    []int    // sessions in which the slot's instance believes, by slot
	Misowned int      // paused or removed sessions in which an instance still believes
	Skipped  []string // faults that found no target
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 30*time.Second)
	c.Renew = cmp.Or(c.Renew, c.TTL/3)
	c.Discovery = cmp.Or(c.Discovery, c.TTL/3)
	c.OpTimeout = cmp.Or(c.OpTimeout, c.TTL/10)
	c.PollTimeout = cmp.Or(c.PollTimeout, min(c.Poll, c.TTL/3))
	c.Serve = cmp.Or(c.Serve, 5*time.Millisecond)
	c.Start = cmp.Or(c.Start, c.TTL/3)
	c.Net.Delay = cmp.Or(c.Net.Delay, 100*time.Microsecond)
	c.Net.Jitter = cmp.Or(c.Net.Jitter, 400*time.Microsecond)
	c.Clock.Late = cmp.Or(c.Clock.Late, 200*time.Microsecond)
	if c.New == nil {
		c.New = func(cc core.Config) Machine { return core.New(cc) }
	}
	return c
}

// maxDrift bounds clock rates so that no product of a rate and a time overflows.
const maxDrift = 100_000

func (c Config) replicated() bool { return c.Sentinel || c.Cluster }

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

func (c Config) checkNumbers() error {
	for _, n := range []struct {
		field           string
		is, least, most int64
	}{
		{"Nodes", int64(c.Nodes), 1, 100_000},
		{"Sessions", int64(c.Sessions), 0, 10_000_000},
		{"Replicas", int64(c.Replicas), 0, redisstore.ReplicasMax},
		{"Clock.Drift", c.Clock.Drift, 0, maxDrift},
	} {
		if n.is < n.least || n.is > n.most {
			return bad("%s is %d; %d to %d are possible", n.field, n.is, n.least, n.most)
		}
	}
	return nil
}

// Validate applies the defaults and returns an error that wraps ErrConfig and names the contradicting field.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := c.checkNumbers(); err != nil {
		return err
	}
	switch {
	case c.TTL < 10*time.Millisecond || c.TTL%time.Millisecond != 0:
		return bad("TTL is %v; whole milliseconds from 10 ms are possible", c.TTL)
	case min(c.Hold, c.Rest, c.Start, c.Storm, c.Calm) < 0:
		return bad("a duration is negative: Hold %v, Rest %v, Start %v, Storm %v, Calm %v", c.Hold, c.Rest, c.Start, c.Storm, c.Calm)
	case c.Lease != "" && (!c.Candidates || c.Sessions != 1), c.Election != nil && c.Lease == "":
		return bad("Lease is %q with %d sessions; it needs Candidates and one session, and Election needs it", c.Lease, c.Sessions)
	case c.Intents != nil && (!c.Candidates || c.Intents.Tuners < 1 || c.Poll <= 0):
		return bad("Intents needs Candidates, Poll and at least one of its Tuners, which are %d", c.Intents.Tuners)
	case c.Replicas > 0 && !c.replicated():
		return bad("Replicas is %d; it needs Sentinel or Cluster", c.Replicas)
	case c.Sentinel && c.Cluster:
		return bad("Sentinel and Cluster are both set; one of them is possible")
	case c.Cluster && c.Intents != nil:
		return bad("Intents know no Cluster")
	case c.Guest != nil && (c.Cluster || c.Intents != nil):
		return bad("Guest knows no Cluster, and needs polling or an election")
	}
	if err := c.timings().Check(c.LongPolls, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// timings returns the run's timings for Timings.Check. Without polling, it fills in poll timings that pass this check.
func (c Config) timings() timing.Timings {
	t := timing.Timings{
		TTL: c.TTL, Renew: c.Renew, RenewTimeout: c.OpTimeout, Heartbeat: c.Renew, Discovery: c.Discovery, Poll: c.Poll,
		PollTimeout: c.PollTimeout, Serve: c.Serve,
	}
	if c.Poll == 0 {
		t.Poll, t.PollTimeout, t.Serve = c.TTL/3, c.TTL/3, timing.Min
	}
	return t
}

const (
	intentPrefix = "v3:"
	idemPrefix   = intentPrefix + "idem:"
	recordPrefix = intentPrefix + "session:"
	busKey       = intentPrefix + "bus"
)

// storeOptions are the options of a store for the leases of the run's system.
func (c *Config) storeOptions() redisstore.Options {
	o := redisstore.Options{Quarantine: c.TTL, Replicas: c.Replicas}
	if c.Lease != "" {
		o.EpochKey = protocol.ElectionEpoch
	}
	if c.Intents != nil {
		o.LeasePrefix, o.NodePrefix, o.EpochKey, o.Channel = "lease:", intentPrefix+"node:", intentPrefix+"epoch", intentPrefix+"leases"
	}
	return o
}
