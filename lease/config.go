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

// Defaults (FR-004) and bounds.
const (
	TTLDefault           = 30 * time.Second
	RenewIntervalDefault = 10 * time.Second
	TTLMin               = 100 * time.Millisecond
	TTLMax               = 12 * time.Hour     // fences are remembered for 24 h after their last use
	NameLengthMax        = redisstore.NameMax // bytes, of lease names and instance IDs: 512
	ReplicasMax          = redisstore.ReplicasMax
)

// Config configures an instance. The zero value is the specification's: leases and a heartbeat of 30 s, renewed every 10 s, and a
// discovery every 10 s. All instances that share leases must agree on TTL, keys and channel.
//
// Errors, Health and the log show Redis' error texts without the password of the client's options. A password from a credentials provider
// is unknown here: arguments that Redis repeats are hidden, but a malicious server may reveal it in other words.
type Config struct {
	// InstanceID names this instance; "": GenerateInstanceID(). No two instances may ever share an ID, not even one after the other.
	InstanceID string

	// TTL is how long a lease and the heartbeat live without a renewal: it bounds failover. 100 ms to 12 h, whole milliseconds.
	TTL time.Duration
	// RenewInterval is the time between renewals of the leases and of the heartbeat; 0: TTL/3.
	RenewInterval time.Duration
	// OpTimeout is how long an attempt may wait for an answer; after that, the term is uncertain. 0: TTL/10.
	OpTimeout time.Duration
	// DiscoveryInterval is the time between two full readings of Redis. They are a safety net: joins, leaves and releases are announced at
	// once. 0: TTL/3. It grows by itself if the readings would load Redis.
	DiscoveryInterval time.Duration
	// Quarantine is how long nothing is granted after Redis lost its data: the longest TTL of all instances that share the epoch key. 0: TTL.
	// The first instance of a group sets it for the group. An instance that needs more is refused (ErrQuarantineTooShort); one that needs
	// less uses the group's. SetQuarantine changes it.
	Quarantine time.Duration
	// DrainTimeout bounds Stop: work that still runs after it keeps its lease until the lease expires. 0: RenewInterval.
	DrainTimeout time.Duration

	// Sessions returns the IDs of the sessions to share: all that are not paused. With it, the instance places and acquires sessions by
	// itself; without it, leases are acquired on demand. It is called once at a time and must end with its context. If it fails, its last
	// good answer is used. Until it has returned once, Redis is not read, and Health says so. With a *SkippedError the IDs are valid, and
	// Health counts the malformed ones. Only for New.
	Sessions func(ctx context.Context) ([]string, error)
	// NamedSessions allows session IDs that are no UUIDs: 1 to 128 bytes of printable ASCII without space, braces, colon and slash. All
	// instances that share sessions must agree on it. Only for New.
	NamedSessions bool
	// Notify is called with every event before anything follows from it, that is before the next request is sent to Redis. The instance's
	// loop waits for it, so it must return at once and never wait for a method of this package, except those of Hold that allow it. With
	// Notify, the listener ends the work: once the work has returned, it must answer each EventYield with Hold.Drop or Hold.Yield. If Notify
	// panics or ends its goroutine, it misses that event, and the log says so. All other listeners should use Subscribe.
	Notify func(Event)

	// LeasePrefix, NodePrefix, EpochKey and Channel are the names in Redis; "": "poll:lease:", "poll:node:", "poll:epoch", "poll:notify". In
	// a cluster all carry the same hash tag.
	LeasePrefix, NodePrefix, EpochKey, Channel string
	// ExactKeys makes a lease's name its whole key in Redis, for keys with given names. Not on a cluster.
	ExactKeys bool

	// Replicas is how many replicas Redis is meant to have, the same in every instance: 0 to 9. With 0, one owner is promised as long as no
	// instance keeps using an old master that lives on after a replica has taken its place. Otherwise an answer counts once a majority of all
	// nodes has the write, and one owner is promised across every failover; without a majority, nobody owns anything. Use 2: with 1 both
	// nodes are needed, with 3 three of four. On a cluster it counts the replicas of the leases' shard. Start fails if more replicas
	// acknowledge; if some are attached later, Health's reason and the log say so within a TTL. See docs/replicas.md.
	Replicas int
	// AssumeNew declares that this address never led to another Redis that granted leases, for a compose file or a test. An instance then
	// does not wait for a Quarantine on a Redis that shows no sign of earlier use, as it does not on a loopback address or a Unix socket.
	// It has no effect with Replicas, Sentinel or Cluster. See docs/redis.md for the signs and what they cannot show.
	AssumeNew bool

	// Logger gets one entry for every acquisition, renewal, release and loss, success or failure (docs/log.md lists them). A separate
	// goroutine writes them, so nothing waits for the reader of the log. nil: warnings and errors go to standard error; zap.NewNop() silences
	// them. The client library has its own process-wide log, with a line for each failed dial ("redis: … pool.go … failed to dial"):
	// logging.Disable() of github.com/redis/go-redis/v9/logging silences it, redis.SetLogger redirects it.
	Logger *zap.Logger
	// Hooks are added, in this order, to the connections made from the client's settings: the client's own hooks cannot be read from it. Put
	// the hooks of a tracer (redisotel) here. A hook must not resend a command: a repeated attempt may be applied late.
	Hooks []redis.Hook
	// RenewLogLevel is the level of successful renewals, one entry for each renewed lease; nil: info. With 1,000 leases at the default
	// timings that is a hundred entries a second. A level that Logger does not write costs nothing.
	RenewLogLevel *zapcore.Level

	_ struct{}
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, TTLDefault)
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
	return c
}

// validate refuses contradictory settings. c has its defaults.
func (c *Config) validate() error {
	if c.TTL < TTLMin || c.TTL > TTLMax || c.TTL%time.Millisecond != 0 { // first: defaults of the others come from it
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
		return configError("Quarantine %v is shorter than TTL %v: leases that Redis forgot may still be believed in",
			c.Quarantine, c.TTL)
	}
	if err := checkName(c.InstanceID); err != nil {
		return configError("InstanceID %s %s", brief(c.InstanceID), err)
	}
	if err := redisstore.CheckInstance(c.InstanceID); err != nil {
		return configError("InstanceID: %v; choose another", err)
	}
	return nil
}

func (c *Config) core() core.Config {
	return core.Config{
		Instance:  c.InstanceID,
		TTL:       int64(c.TTL),
		Renew:     int64(c.RenewInterval),
		Discovery: int64(c.DiscoveryInterval),
		OpTimeout: int64(c.OpTimeout),
		Place:     c.Sessions != nil,

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

// brief quotes a name for an error, shortened if it is too long.
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

func (s *shell) nameError(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%w: %s %s", ErrName, brief(name), err)
	}
	if err := s.store.CheckLease(name); err != nil {
		return fmt.Errorf("%w: %w", ErrName, err)
	}
	return nil
}

// sessionLengthMax bounds IDs of sessions that are no UUIDs.
const sessionLengthMax = 128

// CheckSession returns why id cannot be the ID of a session (ErrSessionID), nil if it can. It accepts a UUID only as 36 characters in
// lower case: other forms would give one session several leases.
func (c *Config) CheckSession(id string) error {
	switch {
	case !c.NamedSessions && sessionid.Valid(id):
		return nil
	case !c.NamedSessions:
		return fmt.Errorf("%w: %s (wanted like %s, in lower case; Config.NamedSessions admits names)", ErrSessionID, brief(id),
			"0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e")
	case id == "" || len(id) > sessionLengthMax || strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("{}:/", r)
	}):
		return fmt.Errorf("%w: %s (wanted are 1 to %d bytes of printable ASCII without space, braces, colon and slash)",
			ErrSessionID, brief(id), sessionLengthMax)
	}
	return nil
}

// Fleet is the configuration of instances that share an epoch in Redis: a Config, an election.Config, or the store.Options of intents. Give
// Bootstrap, SetQuarantine and SetReplicas what the instances themselves are given.
type Fleet interface {
	// Shared returns the fleet's names in Redis, and the keys of leases that no prefix finds.
	Shared() (options redisstore.Options, leases []string, err error)
}

// Shared implements Fleet.
func (c Config) Shared() (redisstore.Options, []string, error) {
	c = c.withDefaults()
	return c.store(), nil, c.validate()
}

// storeOf returns the store of a fleet, and the keys of leases that no prefix finds.
func storeOf(client redis.UniversalClient, fleet Fleet) (*redisstore.Store, []string, error) {
	options, leases, err := fleet.Shared()
	if err != nil {
		return nil, nil, err
	}
	st, err := redisstore.New(client, options)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return st, leases, nil
}

// Bootstrap declares the first deployment of a fleet on an empty Redis. Without it, an empty Redis looks like one that lost its data, and
// the first instances wait for one quarantine (a TTL). more are the keys of further leases that no prefix finds, such as the other leader
// keys of an election's EpochKey. Bootstrap fails while any lease or heartbeat lives, or if another quarantine is agreed on already
// (SetQuarantine changes it). Call it once, by hand or from a deployment job. Never call it at every start, nor on a Redis that has lost
// its data: Redis cannot show what running instances still believe in, and would grant it to others at once.
func Bootstrap(ctx context.Context, client redis.UniversalClient, fleet Fleet, more ...string) error {
	st, leases, err := storeOf(client, fleet)
	if err != nil {
		return err
	}
	defer st.Close()
	return st.Bootstrap(ctx, append(leases, more...)...)
}

// SetQuarantine changes how long nothing is granted after Redis lost its data, for all instances that share the fleet's EpochKey, and
// returns the previous length. To give a fleet a longer TTL, raise the quarantine, wait one old TTL, then roll the instances out. For a
// shorter TTL, roll them out, then lower the quarantine. Free leases are not granted until the next quarantine has passed; living owners
// lose nothing. more is as for Bootstrap. Errors: ErrConfig; redisstore.ErrOutlives while a lease or a heartbeat lives longer than length.
func SetQuarantine(ctx context.Context, client redis.UniversalClient, fleet Fleet, length time.Duration, more ...string) (
	before time.Duration, err error) {
	st, leases, err := storeOf(client, fleet)
	if err != nil {
		return 0, err
	}
	defer st.Close()
	if length < TTLMin || length > TTLMax {
		return 0, configError("a quarantine of %v; it must be %v to %v", length, TTLMin, TTLMax)
	}
	return st.SetQuarantine(ctx, length, append(leases, more...)...)
}

// SetReplicas lowers the number of replicas that must acknowledge a write to what the fleet's Replicas needs, for all instances that share
// its EpochKey, and returns the old and the new number. It is the last step when Redis gets fewer replicas: remove the surplus nodes for
// good, restart the instances one by one with the lower number, then call this once. An instance that still has the higher number raises it
// again. Free leases are not granted until the next quarantine has passed; living owners lose nothing. Errors: ErrConfig;
// redisstore.ErrReplicas while more replicas acknowledge than the fleet's Replicas.
func SetReplicas(ctx context.Context, client redis.UniversalClient, fleet Fleet) (before, after int, err error) {
	st, _, err := storeOf(client, fleet)
	if err != nil {
		return 0, 0, err
	}
	defer st.Close()
	return st.SetReplicas(ctx)
}
