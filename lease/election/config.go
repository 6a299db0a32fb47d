package election

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
)

// Config configures a member. The zero value is a valid election. Members of
// one election must agree on LeaderKey, LeaderTTL, EpochKey and Channel, and
// should agree on the rest.
type Config struct {
	// InstanceID names this member and is the value of the leader key.
	// "": lease.GenerateInstanceID(). No two processes may use one ID at
	// the same time; the second one gets EventDuplicateInstance and does
	// not lead. A process that restarts with the ID of a crashed leader
	// waits until that leadership has expired.
	InstanceID string

	// LeaderKey is the whole key that holds the leader's ID. Two elections
	// need two leader keys. "": "election:leader".
	LeaderKey string
	// HeartbeatPrefix precedes a leader's ID in the key of its heartbeat,
	// which lives 5 s longer than LeaderTTL. "": "election:heartbeat:".
	HeartbeatPrefix string
	// EpochKey shows whether Redis still has its data. Elections that share an
	// EpochKey must have the same LeaderTTL, or a Quarantine at least as long
	// as the longest LeaderTTL. "": "election:epoch".
	EpochKey string
	// Channel carries a notice of each acquisition and release.
	// "": "election:notify".
	Channel string

	// LeaderTTL is how long leadership lives without a renewal, and so how long
	// a dead leader blocks the election. 0: 30 s.
	LeaderTTL time.Duration
	// ElectionInterval is the time between two reads of the leader key by a
	// follower. The reads are a safety net, because a follower also waits for
	// the key's expiry and for the notice of a release. 0: LeaderTTL/2.
	ElectionInterval time.Duration
	// HeartbeatInterval is the time between two heartbeats of the leader.
	// They decide nothing here; other libraries read them. 0: LeaderTTL/3.
	HeartbeatInterval time.Duration
	// StartDelayMax bounds the random time between Start and the first
	// attempt. 0: no delay.
	StartDelayMax time.Duration
	// RenewInterval is the time between two renewals of the leader.
	// 0: LeaderTTL/3.
	RenewInterval time.Duration
	// OpTimeout is how long a request waits for an answer. After that, the
	// leader does not lead until Redis answers. 0: LeaderTTL/10.
	OpTimeout time.Duration
	// Quarantine is how long nobody is elected after Redis lost its data.
	// 0: LeaderTTL.
	Quarantine time.Duration
	// Replicas is lease.Config.Replicas. To have at most one leader across
	// every failover, set Replicas to the number of Redis' replicas. With 0, a
	// failover can cause two leaders.
	Replicas int
	// AssumeNew is lease.Config.AssumeNew: this address never led to
	// another Redis that granted leases.
	AssumeNew bool
	// DrainTimeout is how long Stop waits for the work. If the work has not
	// returned by then, its leadership is left to expire. 0: RenewInterval.
	DrainTimeout time.Duration

	// Notify is called with every event of the elections' leases, as
	// lease.Config.Notify; nil: no call. It must return at once and not use the
	// leases. A listener that can be a moment late should use Subscribe.
	Notify func(lease.Event)
	// Observe is called with every event of the elections at the moment it
	// happens; nil: no call. It must return at once and call only the local
	// reads of this package (IsLeader, Fence, State, Leader).
	Observe func(Event)
	// Logger gets an entry for each event of an election and of its lease.
	// nil: warnings and errors go to standard error; zap.NewNop() silences
	// them. For the client library's own log see lease.Config.Logger.
	Logger *zap.Logger
	// RenewLogLevel is the level of successful renewals, as
	// lease.Config.RenewLogLevel; nil: info.
	RenewLogLevel *zapcore.Level
	// Hooks are added to the connections, as lease.Config.Hooks.
	Hooks []redis.Hook

	_ struct{}
}

// Sovereign returns the settings of the Sovereign library (Java), for an
// election that members of both libraries share. If you change LeaderTTL,
// change the other durations in proportion.
func Sovereign() Config {
	return Config{
		LeaderKey: "sovereign:leader", HeartbeatPrefix: "sovereign:heartbeat:",
		EpochKey: "sovereign:epoch", Channel: "sovereign:notify",
		LeaderTTL: 30 * time.Second, ElectionInterval: 15 * time.Second,
		HeartbeatInterval: 10 * time.Second, StartDelayMax: 10 * time.Second,
	}
}

func (c Config) withDefaults() Config {
	c.LeaderKey = cmp.Or(c.LeaderKey, "election:leader")
	c.HeartbeatPrefix = cmp.Or(c.HeartbeatPrefix, "election:heartbeat:")
	c.EpochKey = cmp.Or(c.EpochKey, "election:epoch")
	c.Channel = cmp.Or(c.Channel, "election:notify")
	c.LeaderTTL = cmp.Or(c.LeaderTTL, 30*time.Second)
	c.ElectionInterval = cmp.Or(c.ElectionInterval, c.LeaderTTL/2)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, c.LeaderTTL/3)
	c.RenewInterval = cmp.Or(c.RenewInterval, c.LeaderTTL/3)
	c.OpTimeout = cmp.Or(c.OpTimeout, c.LeaderTTL/10)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, c.RenewInterval)
	if c.InstanceID == "" {
		c.InstanceID = lease.GenerateInstanceID()
	}
	if c.Logger == nil {
		c.Logger = zaplog.Default()
	}
	return c
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: election: %w", lease.ErrInvalidConfig, fmt.Errorf(format, args...))
}

// validate refuses contradictory settings; lease.NewKeeper checks those of the lease. c already has its defaults.
func (c *Config) validate() error {
	if c.LeaderTTL < lease.TTLMin || c.LeaderTTL > lease.TTLMax || c.LeaderTTL%time.Millisecond != 0 {
		return configError("LeaderTTL is %v; it must be %v to %v in whole milliseconds (0 gives the default)", c.LeaderTTL,
			lease.TTLMin, lease.TTLMax)
	}
	// Settings from which others take their defaults come first, so that an error names the setting that the user set.
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"ElectionInterval", c.ElectionInterval}, {"HeartbeatInterval", c.HeartbeatInterval},
		{"RenewInterval", c.RenewInterval}, {"OpTimeout", c.OpTimeout}, {"DrainTimeout", c.DrainTimeout},
	} {
		if d.value < time.Millisecond {
			return configError("%s is %v; it must be at least 1ms (0 gives the default)", d.name, d.value)
		}
	}
	switch {
	case c.ElectionInterval >= c.LeaderTTL:
		return configError("ElectionInterval is %v; it must be less than LeaderTTL %v, or a member that renews on it loses "+
			"its leadership", c.ElectionInterval, c.LeaderTTL)
	case c.HeartbeatInterval >= c.LeaderTTL:
		return configError("HeartbeatInterval is %v; it must be less than LeaderTTL %v, or a living leader's heartbeat looks stale",
			c.HeartbeatInterval, c.LeaderTTL)
	case c.StartDelayMax < 0:
		return configError("StartDelayMax is %v; it must not be negative", c.StartDelayMax)
	}
	if err := checkKey("EpochKey", c.EpochKey); err != nil {
		return err
	}
	if err := checkKey("Channel", c.Channel); err != nil {
		return err
	}
	return c.validateKeys()
}

func (c *Config) validateKeys() error {
	if err := checkKey("LeaderKey", c.LeaderKey); err != nil {
		return err
	}
	if err := checkKey("HeartbeatPrefix", c.HeartbeatPrefix); err != nil {
		return err
	}
	fence := "{" + c.LeaderKey + "}:fence" // as the store names it
	for _, key := range []string{c.LeaderKey, c.EpochKey, fence} {
		if strings.HasPrefix(key, c.HeartbeatPrefix) {
			return configError("%q begins with HeartbeatPrefix %q: it would be taken for a heartbeat", key, c.HeartbeatPrefix)
		}
	}
	if c.EpochKey == fence {
		return configError("EpochKey %q is the key of the fence of LeaderKey %q", c.EpochKey, c.LeaderKey)
	}
	return nil
}

func checkKey(what, key string) error {
	switch {
	case key == "":
		return configError("%s is empty", what)
	case len(key) > lease.NameLengthMax:
		return configError("%s has %d bytes, at most %d are allowed", what, len(key), lease.NameLengthMax)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}):
		return configError("%s %q holds spaces, control characters or invalid UTF-8", what, key)
	}
	return nil
}

func (c *Config) lease() lease.Config {
	return lease.Config{
		InstanceID: c.InstanceID, TTL: c.LeaderTTL, RenewInterval: c.RenewInterval, OpTimeout: c.OpTimeout,
		Quarantine: c.Quarantine, DrainTimeout: c.DrainTimeout, ExactKeys: true, EpochKey: c.EpochKey, Channel: c.Channel,
		Logger: c.Logger, Hooks: c.Hooks, RenewLogLevel: c.RenewLogLevel, Replicas: c.Replicas,
		AssumeNew: c.AssumeNew,
	}
}

func (c *Config) store() redisstore.Options {
	return redisstore.Options{
		ExactKeys: true, NodePrefix: c.HeartbeatPrefix, EpochKey: c.EpochKey, Channel: c.Channel, OpTimeout: c.OpTimeout,
		PoolSize: 1, Quarantine: max(c.Quarantine, c.LeaderTTL), Hooks: c.Hooks, Replicas: c.Replicas,
		BeatSlack: time.Duration(rules.HeartbeatSlack), Calls: zaplog.CallsOf(c.Logger),
	}
}

func (c *Config) rules() rules.Config {
	return rules.Config{Instance: c.InstanceID, TTL: int64(c.LeaderTTL), Interval: int64(c.ElectionInterval),
		Heartbeat: int64(c.HeartbeatInterval), StartDelay: c.startDelay()}
}

func (c *Config) startDelay() int64 {
	if c.StartDelayMax == 0 {
		return 0
	}
	return rand.Int64N(int64(c.StartDelayMax))
}

// Shared implements admin.Fleet.
func (c Config) Shared() (redisstore.Options, []string, error) {
	c = c.withDefaults()
	return c.store(), []string{c.LeaderKey}, c.validate()
}
