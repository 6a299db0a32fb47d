package lease

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/sessionid"
)

// Defaults and bounds.
const (
	DefaultTTL           = 30 * time.Second
	DefaultRenewInterval = 10 * time.Second
	TTLMin               = 100 * time.Millisecond
	// TTLMax is below the 24 h for which Redis keeps an unused fence.
	TTLMax = 12 * time.Hour
	// NameLengthMax bounds lease names and instance IDs: 512 bytes.
	NameLengthMax = redisstore.NameMax
	// ReplicasMax bounds Config.Replicas: 9.
	ReplicasMax = redisstore.ReplicasMax
)

// Config configures a Keeper, and within ManagerConfig a Manager. The zero
// value means: leases and a heartbeat of 30 s, renewed every 10 s, and a
// discovery every 10 s. All instances that share leases must agree on TTL, keys
// and channel; only WithTTL may differ.
//
// Errors, Health and the log show Redis' error texts without the password of
// the client's options. They also hide the arguments that Redis repeats. The
// library does not know the password of a credentials provider, so a malicious
// server could reveal that password in other words.
type Config struct {
	// InstanceID names this instance; "" means GenerateInstanceID(). No two
	// instances may ever share an ID, not even one after the other.
	InstanceID string

	// TTL is how long a lease and the heartbeat live without a renewal, and so
	// how long a dead owner blocks its leases. 100 ms to 12 h, whole
	// milliseconds. 0: 30 s.
	TTL time.Duration
	// RenewInterval is the time between renewals of the leases and of the
	// heartbeat. 0: TTL/3.
	RenewInterval time.Duration
	// OpTimeout is how long an attempt waits for an answer; after that, the
	// term is uncertain. 0: TTL/10.
	OpTimeout time.Duration
	// DiscoveryInterval is the time between two discoveries. They are a safety
	// net, because instances announce joins, leaves and releases at once. In
	// each interval one instance reads the sessions and heartbeats. An instance
	// reads all leases if it missed an announcement. The first discovery
	// follows a tenth of the interval after the start, so that a fleet that
	// starts at once moves no lease. 0: TTL/3.
	DiscoveryInterval time.Duration
	// Quarantine is how long Redis grants nothing after it lost its data: the
	// longest TTL of all instances that share the epoch key. 0: TTL. The first
	// instance of such a group sets the group's quarantine. An instance that
	// needs a longer one does not start; an instance that needs a shorter one
	// uses the group's. admin.SetQuarantine changes it.
	Quarantine time.Duration
	// DrainTimeout bounds Stop. Work that still runs after it keeps its lease
	// until the lease expires. 0: RenewInterval.
	DrainTimeout time.Duration

	// Notify is called with every event before the next request is sent to
	// Redis. The instance's loop waits for Notify, so Notify must return at
	// once. It may call only the methods of Lease that say so. With Notify, the
	// listener ends the work: after each EventYield, it must call Lease.Drop
	// once the work has returned. If Notify panics or ends its goroutine, it
	// misses that event, and the log says so. A listener that ends no work
	// should use Subscribe.
	Notify func(Event)

	// LeasePrefix, NodePrefix, EpochKey and Channel are the names in Redis. "":
	// "lease:name:", "lease:node:", "lease:epoch" and "lease:notify", and in a
	// ManagerConfig "poll:lease:", "poll:node:", "poll:epoch" and
	// "poll:notify". On a cluster all four carry the same hash tag. In a
	// database other than 0, ":" and the number of the database follow Channel.
	LeasePrefix, NodePrefix, EpochKey, Channel string
	// ExactKeys makes a lease's name its whole key in Redis, for keys that
	// another program prescribes. Not on a cluster.
	ExactKeys bool

	// Replicas is how many replicas Redis should have, the same in every
	// instance: 0 to 9. With 0, one owner is promised only while no instance
	// uses a deposed master. With 1 or more, a write counts once a majority of
	// all Redis nodes has it, and one owner is promised across every failover.
	// Without a majority, nobody owns anything. Use 2: with 1, both nodes must
	// acknowledge, and with 3, three of four. On a cluster, Replicas is the
	// number of replicas of the leases' shard. Start fails if more replicas
	// acknowledge. If further replicas attach later, Health's reason and the
	// log say so within a TTL. See docs/replicas.md.
	Replicas int
	// AssumeNew declares that no other Redis at this address has ever granted
	// leases. A compose file or a test may set it. The instance then skips the
	// Quarantine, unless the Redis that is now at this address shows a sign of
	// earlier use: a recent restart, an executed script, or a key of these
	// leases. docs/concepts.md lists all signs. At a loopback address or a Unix
	// socket, AssumeNew is not needed. It has no effect with Replicas, Sentinel
	// or Cluster.
	AssumeNew bool

	// Logger gets one entry for every acquisition, renewal, release and loss,
	// success or failure (docs/log.md lists them). A separate goroutine writes
	// them, so a slow log delays nothing. nil: warnings and errors go to
	// standard error; zap.NewNop() silences them. The client library has its
	// own process-wide log, with a line for each failed dial ("redis: … pool.go
	// … failed to dial"): logging.Disable() of
	// github.com/redis/go-redis/v9/logging silences it, redis.SetLogger
	// redirects it.
	Logger *zap.Logger
	// Hooks are added, in this order, to the instance's own connections. The
	// client's own hooks cannot be read from it. Put the hooks of a tracer
	// (redisotel) here. A hook must not resend a command: Redis may apply a
	// repeated attempt late.
	Hooks []redis.Hook
	// RenewLogLevel is the level of successful renewals, one entry for each
	// renewed lease. nil: info. At the default timings, 1,000 leases write a
	// hundred entries a second. A level that Logger does not write costs
	// nothing.
	RenewLogLevel *zapcore.Level

	_ struct{}
}

// ManagerConfig configures a Manager.
type ManagerConfig struct {
	Config

	// Sessions returns the IDs of all sessions to share, without the paused
	// ones. If Sessions is set, the instance places and acquires sessions by
	// itself; if it is nil, callers acquire leases on demand. Calls never
	// overlap; each may take up to a TTL, and must end with its context. Until
	// a call succeeds, the instance uses the result of the last successful one.
	// Until the first one succeeds, it acquires nothing, and Health says so. If
	// the error has a method Skipped() (count int, names []string), the
	// returned IDs are valid, and Health shows the skipped ones.
	Sessions func(ctx context.Context) ([]string, error)
	// NamedSessions allows session IDs that are not UUIDs: 1 to 128 bytes of
	// printable ASCII without space, braces, colon and slash. All instances
	// that share sessions must agree on it.
	NamedSessions bool

	_ struct{}
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidConfig, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.RenewInterval = cmp.Or(c.RenewInterval, c.TTL/3)
	c.OpTimeout = cmp.Or(c.OpTimeout, c.TTL/10)
	c.DiscoveryInterval = cmp.Or(c.DiscoveryInterval, c.TTL/3)
	c.Quarantine = cmp.Or(c.Quarantine, c.TTL)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, c.RenewInterval)
	if c.InstanceID == "" {
		c.InstanceID = GenerateInstanceID()
	}
	if c.Logger == nil {
		c.Logger = zaplog.Default()
	}
	if c.RenewLogLevel == nil {
		c.RenewLogLevel = new(zapcore.InfoLevel)
	}
	c.setKeys("lease:name:", "lease:node:", "lease:epoch", "lease:notify")
	return c
}

// setKeys sets the names in Redis that are empty.
func (c *Config) setKeys(leases, nodes, epoch, channel string) {
	if !c.ExactKeys {
		c.LeasePrefix = cmp.Or(c.LeasePrefix, leases)
	}
	c.NodePrefix = cmp.Or(c.NodePrefix, nodes)
	c.EpochKey = cmp.Or(c.EpochKey, epoch)
	c.Channel = cmp.Or(c.Channel, channel)
}

func (c ManagerConfig) withDefaults() ManagerConfig {
	c.setKeys(redisstore.DefaultLeasePrefix, redisstore.DefaultNodePrefix, redisstore.DefaultEpochKey, redisstore.DefaultChannel)
	c.Config = c.Config.withDefaults()
	return c
}

// validate refuses contradictory settings. c already has its defaults.
func (c *Config) validate() error {
	if c.TTL < TTLMin || c.TTL > TTLMax || c.TTL%time.Millisecond != 0 { // first, because other defaults derive from it
		return configError("TTL is %v; it must be %v to %v in whole milliseconds (0 gives the default)", c.TTL, TTLMin, TTLMax)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"RenewInterval", c.RenewInterval}, {"OpTimeout", c.OpTimeout},
		{"DiscoveryInterval", c.DiscoveryInterval}, {"Quarantine", c.Quarantine}, {"DrainTimeout", c.DrainTimeout},
	} {
		if d.value < time.Millisecond {
			return configError("%s is %v; it must be at least 1ms (0 gives the default)", d.name, d.value)
		}
	}
	cc := c.core()
	margin := time.Duration(cc.Margin())
	switch {
	case c.RenewInterval >= c.TTL:
		return configError("RenewInterval %v is not less than TTL %v: every lease would expire before its renewal",
			c.RenewInterval, c.TTL)
	case c.RenewInterval+c.OpTimeout > c.TTL-margin:
		return configError("RenewInterval %v and OpTimeout %v do not fit into the trust window %v (TTL %v less %v)",
			c.RenewInterval, c.OpTimeout, c.TTL-margin, c.TTL, margin)
	case c.Replicas < 0 || c.Replicas > ReplicasMax:
		return configError("Replicas is %d; it must be 0 to %d", c.Replicas, ReplicasMax)
	case c.Quarantine < c.TTL:
		return configError("Quarantine %v is shorter than TTL %v: after a loss of data, an owner could trust a lease that "+
			"Redis grants to another", c.Quarantine, c.TTL)
	}
	if err := checkName(c.InstanceID); err != nil {
		return configError("InstanceID %s %s", brief(c.InstanceID), err)
	}
	if err := redisstore.CheckInstance(c.InstanceID); err != nil {
		return configError("InstanceID: %v; choose another", err)
	}
	return nil
}

// Option is an option of one acquisition.
type Option struct{ ttl time.Duration }

// WithTTL gives the lease a shorter TTL than Config.TTL, so that others can
// acquire it sooner if this process dies. The lease is renewed at least once in
// each third of ttl. ttl must be at least 100 ms and at least Config.TTL/50.
// Keepers may use different TTLs for one name. If an attempt with a shorter TTL
// got no answer, this keeper may use that TTL for its next terms of the lease.
func WithTTL(ttl time.Duration) Option { return Option{ttl} }

// shortest bounds WithTTL from below, at Config.TTL/shortest. Such a TTL still has room for the margin for clocks (1 % of
// Config.TTL), the time to a renewal, and the timeout of the renewal.
const shortest = 50

// checkShorter checks the TTL of a lease; 0 is Config.TTL.
func (c *Config) checkShorter(ttl time.Duration) error {
	if least := max(TTLMin, c.TTL/shortest); ttl != 0 && (ttl < least || ttl > c.TTL || ttl%time.Millisecond != 0) {
		return configError("WithTTL(%v): it must be %v to %v, the TTL of the instance, in whole milliseconds", ttl, least, c.TTL)
	}
	return nil
}

func (c *Config) core() core.Config {
	return core.Config{
		Instance:   c.InstanceID,
		TTL:        int64(c.TTL),
		Renew:      int64(c.RenewInterval),
		Discovery:  int64(c.DiscoveryInterval),
		OpTimeout:  int64(c.OpTimeout),
		StartDelay: int64(c.DiscoveryInterval) / 10,
		Quarantine: int64(c.Quarantine),
	}.WithDefaults()
}

func (c *Config) store() redisstore.Options {
	return redisstore.Options{
		LeasePrefix: c.LeasePrefix,
		ExactKeys:   c.ExactKeys,
		NodePrefix:  c.NodePrefix,
		EpochKey:    c.EpochKey,
		Channel:     c.Channel,
		Quarantine:  c.Quarantine,
		Replicas:    c.Replicas,
		AssumeNew:   c.AssumeNew,
		OpTimeout:   c.OpTimeout,
		PoolSize:    connections(),
		Hooks:       c.Hooks,
		Calls:       zaplog.CallsOf(c.Logger),
	}
}

// checkName returns what is wrong with a lease name or an instance ID, as the end of a sentence.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case len(name) > NameLengthMax:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(name), NameLengthMax)
	case !utf8.ValidString(name):
		return fmt.Errorf("is not UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fmt.Errorf("has spaces or control characters, which are not allowed")
	}
	return nil
}

// brief quotes a name for an error, cut to 64 bytes.
func brief(name string) string {
	const most = 64
	if len(name) <= most {
		return strconv.Quote(name)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return fmt.Sprintf("%q… (%d bytes)", name[:cut], len(name))
}

// Shared implements admin.Fleet.
func (c Config) Shared() (redisstore.Options, []string, error) {
	c = c.withDefaults()
	return c.store(), nil, c.validate()
}

func (c *ManagerConfig) checkSession(id string) error {
	if err := sessionid.Check(id, c.NamedSessions); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return nil
}

// Shared implements admin.Fleet.
func (c ManagerConfig) Shared() (redisstore.Options, []string, error) {
	return c.withDefaults().Config.Shared()
}
