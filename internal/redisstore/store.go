package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/callback"
)

// Defaults of Options: keys and TTL of the specification (docs/specification.md, 000).
const (
	DefaultLeasePrefix = "poll:lease:"
	DefaultNodePrefix  = "poll:node:"
	DefaultEpochKey    = "poll:epoch"
	DefaultChannel     = "poll:notify"
	defaultQuarantine  = 30 * time.Second
	DefaultOpTimeout   = 3 * time.Second
	defaultPoolSize    = 4

	// DefaultFenceTTL is how long a fence outlives its last use.
	DefaultFenceTTL = 24 * time.Hour

	// ReplicasMax bounds Options.Replicas.
	ReplicasMax = 9

	// ItemsMax bounds the items of an Op, which is one script call. No call may block Redis for more than 2 ms.
	ItemsMax = 500
)

// Errors of New, Bootstrap and Check. Operations report theirs in Failure and Text of core.Answer.
var (
	// ErrUnsupportedClient means that New cannot use this kind of client.
	ErrUnsupportedClient = errors.New("unsupported Redis client")
	// ErrInvalidOptions means that the Options contradict each other or the client.
	ErrInvalidOptions = errors.New("invalid options of the lease store")
)

// Options configure a Store. A zero field means its default.
type Options struct {
	// LeasePrefix precedes a lease's ID in its key.
	LeasePrefix string
	// ExactKeys makes a lease's ID its whole key. LeasePrefix must then be empty.
	ExactKeys bool
	// NodePrefix precedes an instance's ID in the key of its heartbeat.
	NodePrefix string
	// EpochKey holds the epoch. With the suffix ":group", it holds the agreement of the instances that share the epoch.
	EpochKey string
	// Channel carries notices. In a database other than 0, its name ends with the database, as in "poll:notify:3" (see In).
	Channel string
	// Quarantine is how long a Redis that may have lost data grants nothing. It must be at least the longest TTL of any lease under
	// LeasePrefix. Otherwise Redis could grant a lease while its old owner still believes in it (G1).
	Quarantine time.Duration
	// BeatSlack is how much longer a heartbeat lives than the leases of its instance, as in elections.
	BeatSlack time.Duration
	// Replicas is how many replicas Redis should have, the same in every instance. With 0, leases are not safe across a failover.
	// Otherwise a write counts once a majority of all nodes, master included, has it (docs/replicas.md).
	Replicas int
	// AssumeNew lets a Redis without an epoch count as new at any address, not only at a loopback address or a Unix socket, if all its
	// signs agree (doubt.lua). It has no effect with Replicas, Sentinel or Cluster.
	AssumeNew bool
	// OpTimeout bounds operations whose context has no deadline, and each wait for a connection.
	OpTimeout time.Duration
	// PoolSize is the maximum number of connections. A subscription needs one more.
	PoolSize int
	// Hooks are added to the store's own client.
	Hooks []redis.Hook
	// Calls, if not nil, watches calls of Hooks and of functions in the client's options.
	Calls *callback.Calls

	_ struct{}
}

func (o Options) withDefaults() Options {
	if !o.ExactKeys {
		o.LeasePrefix = cmp.Or(o.LeasePrefix, DefaultLeasePrefix)
	}
	o.NodePrefix = cmp.Or(o.NodePrefix, DefaultNodePrefix)
	o.EpochKey = cmp.Or(o.EpochKey, DefaultEpochKey)
	o.Channel = cmp.Or(o.Channel, DefaultChannel)
	o.Quarantine = cmp.Or(o.Quarantine, defaultQuarantine)
	o.OpTimeout = cmp.Or(o.OpTimeout, DefaultOpTimeout)
	o.PoolSize = cmp.Or(o.PoolSize, defaultPoolSize)
	return o
}

// In returns the options with every default, for the client's database. A channel reaches all databases, so its name includes the
// database to keep fleets apart.
func (o Options) In(client redis.UniversalClient) Options {
	o = o.withDefaults()
	if c, single := client.(interface{ Options() *redis.Options }); single && c.Options().DB != 0 {
		o.Channel = fmt.Sprintf("%s:%d", o.Channel, c.Options().DB)
	}
	return o
}

// groupKey is the key of the group's record, in the slot of the epoch key if that has a hash tag.
func (o *Options) groupKey() string { return o.EpochKey + groupSuffix }

// acks is how many replicas, together with the master, make a majority of all nodes.
func (o *Options) acks() int { return (o.Replicas + 1) / 2 }

// epoch is epoch.lua's argument for a new epoch: its quarantine in µs and the required acknowledgements, if any.
func (o *Options) epoch(quarantine time.Duration) any {
	us := quarantine.Microseconds()
	if acks := o.acks(); acks > 0 {
		return newEpoch(us, acks)
	}
	return us
}

// optionNew is epoch.lua's option for a caller that accepts a new Redis.
const optionNew = "new"

func newEpoch(us int64, option any) string { return fmt.Sprintf("%d %v", us, option) }

func (o *Options) validate(cluster bool) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Quarantine < time.Millisecond:
		return bad("Quarantine is %v; it must be at least the longest lease TTL in use", o.Quarantine)
	case o.OpTimeout < time.Millisecond:
		return bad("OpTimeout is %v; it must be at least 1ms", o.OpTimeout)
	case o.Replicas < 0 || o.Replicas > ReplicasMax:
		return bad("Replicas is %d; it must be 0 to %d", o.Replicas, ReplicasMax)
	case o.PoolSize < 1:
		return bad("PoolSize is %d; it must be at least 1", o.PoolSize)
	case o.ExactKeys && o.LeasePrefix != "":
		return bad("LeasePrefix is %q; with ExactKeys it must be empty", o.LeasePrefix)
	case o.ExactKeys && cluster:
		return bad("ExactKeys is not possible on a Redis Cluster: nothing says that the keys are in one slot")
	case o.ExactKeys: // CheckLease refuses leases with the other keys
		return nil
	case strings.HasPrefix(o.LeasePrefix, o.NodePrefix), strings.HasPrefix(o.NodePrefix, o.LeasePrefix):
		return bad("LeasePrefix %q and NodePrefix %q must not begin with each other", o.LeasePrefix, o.NodePrefix)
	case strings.HasPrefix(o.groupKey(), o.LeasePrefix), strings.HasPrefix(o.groupKey(), o.NodePrefix):
		return bad("EpochKey %q, and %q that goes with it, must not begin with LeasePrefix %q or NodePrefix %q",
			o.EpochKey, o.groupKey(), o.LeasePrefix, o.NodePrefix)
	}
	if !cluster {
		return nil
	}
	tag := hashTag(o.LeasePrefix)
	if tag == "" || hashTag(o.NodePrefix) != tag || hashTag(o.EpochKey) != tag {
		return bad("on a Redis Cluster LeasePrefix %q, NodePrefix %q and EpochKey %q must carry the same hash tag, "+
			"such as %q, %q and %q, because each script reads several keys of one slot",
			o.LeasePrefix, o.NodePrefix, o.EpochKey, "{poll}:lease:", "{poll}:node:", "{poll}:epoch")
	}
	return nil
}

// Store executes operations on Redis. It is safe for concurrent use.
type Store struct {
	*conn
	survey
	heartbeats
}

// New returns a store on the server of client, a *redis.Client (plain or failover) or a *redis.ClusterClient. It opens no connection.
//
// The store makes its own client, with client's address, credentials, TLS, dialer and OnConnect. Its client never retries, because Redis
// may apply a repeated attempt late. It honours deadlines of contexts and has no cache or limiter. Pass client's hooks in Options.Hooks.
//
// A failover client must stay open while the store is used, because it finds the master. The store asks the sentinels six times per
// quarantine, and closes its connections to a deposed master.
func New(client redis.UniversalClient, options Options) (*Store, error) {
	_, cluster := client.(*redis.ClusterClient)
	wire, err := newWire(options, cluster)
	if err != nil {
		return nil, err
	}
	own, err := OwnClient(client, wire.opt)
	if err != nil {
		return nil, err
	}
	wire.opt = wire.opt.In(own)
	c := &conn{own, wire, newFresh(client, &wire.opt)}
	own.AddHook(c.fresh)
	return &Store{c, survey{c}, heartbeats{c}}, nil
}
