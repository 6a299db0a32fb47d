package store

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// Errors for errors.Is.
var (
	// ErrNotFound means that no session has this ID, or that it ended longer
	// than Options.Retention ago.
	ErrNotFound = errors.New("no such session")
	// ErrUnavailable means that Redis refused or did not answer. It may have
	// executed the request. Retrying is safe.
	ErrUnavailable = errors.New("redis is not available")
	// ErrBusy means that the resource is in use (PutLeased). Use errors.As to
	// get the *BusyError.
	ErrBusy = errors.New("resource is in use")
	// ErrQuarantine means that Redis has lost its data and grants no leases yet
	// (PutLeased).
	ErrQuarantine = errors.New("redis lost its leases and grants none until the last of them has expired")
	// ErrRequeue means that a dead letter cannot go back on the bus. The text
	// has the reason.
	ErrRequeue = errors.New("dead letter not requeued")
	// ErrLetterID means that the text is no valid ID of a dead letter.
	ErrLetterID = errors.New("not the ID of a dead letter")
)

// BusyError names the user of a resource.
type BusyError struct {
	Resource string
	Holder   string // "session:<id>", or the instance ID of a worker

	_ struct{}
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%q is in use by %q: stop that session, or wait for its end", e.Resource, e.Holder)
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Options configure a Store. A zero field means its default. The APIs and
// workers of one system need the same Names, KeyPrefix and names in Leases.
type Options struct {
	// Names are those that other programs see.
	Names intent.Names
	// KeyPrefix precedes every key. "": "intent:".
	KeyPrefix string
	// Leases has the TTL of the leases on resources and slots. Names in Redis
	// that Leases leaves empty (LeasePrefix, NodePrefix, EpochKey, Channel)
	// begin with KeyPrefix. The worker's keeper uses these settings. Hooks
	// apply to all connections. With Replicas, a lease counts once a majority
	// of the Redis nodes has it, but a failover may still lose a session's
	// record, a request on the bus, or an idempotency key.
	Leases lease.Config
	// Retention is the least time for which the record of an ended session is
	// kept. 0: 1 h.
	Retention time.Duration
	// OpTimeout bounds every call. 0: 3 s.
	OpTimeout time.Duration
	// PoolSize bounds the connections for calls that are not batched. 0: 16.
	PoolSize int
	// Batches is how many script calls (requests, stops, a worker's writes) are
	// in flight at once. Further calls wait and are sent together. A small
	// number makes large batches, which cost least. A large number suits a
	// distant Redis. 0: PoolSize.
	Batches int
	// DeadLetters is the approximate maximum number of dead letters. 0: 10,000.
	DeadLetters int

	_ struct{}
}

func (o Options) withDefaults() Options {
	names := o.Names.Table()
	o.KeyPrefix = cmp.Or(o.KeyPrefix, names.KeyPrefix)
	o.Leases.LeasePrefix = cmp.Or(o.Leases.LeasePrefix, names.LeasePrefix, o.KeyPrefix+"lease:")
	o.Leases.NodePrefix = cmp.Or(o.Leases.NodePrefix, o.KeyPrefix+"node:")
	o.Leases.EpochKey = cmp.Or(o.Leases.EpochKey, o.KeyPrefix+"epoch")
	o.Leases.Channel = cmp.Or(o.Leases.Channel, o.KeyPrefix+"leases")
	o.Leases.TTL = cmp.Or(o.Leases.TTL, lease.DefaultTTL)
	o.Leases.Quarantine = cmp.Or(o.Leases.Quarantine, o.Leases.TTL)
	o.Retention = cmp.Or(o.Retention, time.Hour)
	o.OpTimeout = cmp.Or(o.OpTimeout, 3*time.Second)
	o.PoolSize = cmp.Or(o.PoolSize, 16)
	o.Batches = cmp.Or(o.Batches, o.PoolSize)
	o.DeadLetters = cmp.Or(o.DeadLetters, 10_000)
	return o
}

func (o *Options) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", lease.ErrInvalidConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case strings.ContainsAny(o.KeyPrefix, " \r\n\t"):
		return bad("KeyPrefix %q has spaces", o.KeyPrefix)
	case strings.HasPrefix(o.KeyPrefix, o.Leases.LeasePrefix),
		strings.HasPrefix(o.Leases.LeasePrefix, o.KeyPrefix) && o.Leases.LeasePrefix != o.KeyPrefix+"lease:":
		return bad("KeyPrefix %q and Leases.LeasePrefix %q must not begin with each other", o.KeyPrefix, o.Leases.LeasePrefix)
	case o.Retention < time.Second:
		return bad("Retention is %v; it must be at least 1s", o.Retention)
	case o.OpTimeout < time.Millisecond:
		return bad("OpTimeout is %v; it must be at least 1ms", o.OpTimeout)
	case o.Leases.Replicas < 0 || o.Leases.Replicas > lease.ReplicasMax:
		return bad("Leases.Replicas is %d; it must be 0 to %d", o.Leases.Replicas, lease.ReplicasMax)
	case o.Leases.TTL < lease.TTLMin:
		return bad("Leases.TTL is %v; it must be at least %v", o.Leases.TTL, lease.TTLMin)
	case o.PoolSize < 1 || o.Batches < 1 || o.DeadLetters < 1:
		return bad("PoolSize is %d, Batches %d and DeadLetters %d; each must be at least 1", o.PoolSize, o.Batches, o.DeadLetters)
	}
	return nil
}

func (o *Options) leaseOptions() redisstore.Options {
	return redisstore.Options{LeasePrefix: o.Leases.LeasePrefix, EpochKey: o.Leases.EpochKey, Quarantine: o.Leases.Quarantine,
		Replicas: o.Leases.Replicas}
}

// Store keeps intents in Redis. It is safe for concurrent use.
type Store struct {
	opt     Options
	names   *intentnames.Names
	client  redis.UniversalClient
	batcher *batcher
	bus     string
	notify  string
	calls   *callback.Calls // calls of Leases.Hooks and of the client's functions
}

// New returns a store on the server of client, a *redis.Client (plain or
// failover) or a *redis.ClusterClient. It makes its own connections, when it
// first needs them.
func New(client redis.UniversalClient, options Options) (*Store, error) {
	opt := options.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	calls := cmp.Or(zaplog.CallsOf(opt.Leases.Logger), new(callback.Calls))
	own, err := redisstore.OwnClient(client, redisstore.Options{OpTimeout: opt.OpTimeout, PoolSize: opt.PoolSize,
		Hooks: opt.Leases.Hooks, Calls: calls})
	if err != nil {
		return nil, err
	}
	return &Store{
		opt: opt, names: opt.Names.Table(), client: own, calls: calls,
		batcher: &batcher{client: own, timeout: opt.OpTimeout, lanes: opt.Batches},
		bus:     opt.KeyPrefix + "bus", notify: opt.KeyPrefix + "notify",
	}, nil
}

// Shared implements admin.Fleet.
func (o Options) Shared() (redisstore.Options, []string, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return redisstore.Options{}, nil, err
	}
	return o.Leases.Shared()
}

// Options returns the store's options with every default.
func (s *Store) Options() Options { return s.opt }

// Late returns a hook, or a function of the client's options, that began before
// begun and has not returned, and since when; "" for none.
func (s *Store) Late(begun time.Time) (what string, since time.Time) { return s.calls.Late(begun) }

// Close closes the store's own connections. Running calls end with
// ErrUnavailable.
func (s *Store) Close() error { return s.client.Close() }

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

func (s *Store) leaseKey(resource string) string {
	return s.opt.Leases.LeasePrefix + s.names.ResourceLease(resource)
}
