// Package admin has what an operator or a deployment job does to a whole fleet:
// it declares a Redis new, and changes the fleet's quarantine or its number of
// replicas. The commands of leasectl do the same.
package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
)

// Errors for errors.Is.
var (
	// ErrInUse: Bootstrap found a live lease or heartbeat, or a group with
	// another quarantine.
	ErrInUse = redisstore.ErrInUse
	// ErrOutlives: SetQuarantine found a lease or a heartbeat that lives longer
	// than the new quarantine.
	ErrOutlives = redisstore.ErrOutlives
	// ErrReplicas: SetReplicas found that more replicas acknowledge than the
	// fleet's Replicas.
	ErrReplicas = redisstore.ErrReplicas
)

// Fleet is the configuration of instances that share an epoch in Redis: a
// lease.Config of keepers, a lease.ManagerConfig of managers or pollers, an
// election.Config, or the store.Options of intents. Pass the instances' own
// configuration to Bootstrap, SetQuarantine and SetReplicas.
type Fleet interface {
	// Shared returns the fleet's names in Redis, and the keys of its leases
	// that do not begin with LeasePrefix.
	Shared() (options redisstore.Options, leases []string, err error)
}

// storeOf returns the store of a fleet, and the keys of its leases without the prefix.
func storeOf(client redis.UniversalClient, fleet Fleet) (*redisstore.Store, []string, error) {
	options, leases, err := fleet.Shared()
	if err != nil {
		return nil, nil, err
	}
	st, err := redisstore.New(client, options)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", lease.ErrInvalidConfig, err)
	}
	return st, leases, nil
}

// Bootstrap declares the first deployment of a fleet on an empty Redis. Without
// it, an empty Redis looks like one that lost its data, and the first instances
// wait for one quarantine (a TTL). Pass as more the keys of further leases
// without the prefix, such as the other leader keys of an election's EpochKey.
//
// Bootstrap fails while any lease or heartbeat lives, or if another quarantine
// is agreed on already (SetQuarantine changes it). Call it once, by hand or
// from a deployment job. Never call it at every start, nor on a Redis that has
// lost its data: running instances may still believe in leases that Redis
// forgot, and Redis would grant these to others at once.
func Bootstrap(ctx context.Context, client redis.UniversalClient, fleet Fleet, more ...string) error {
	st, leases, err := storeOf(client, fleet)
	if err != nil {
		return err
	}
	defer st.Close()
	return st.Bootstrap(ctx, append(leases, more...)...)
}

// SetQuarantine changes how long Redis grants nothing after it lost its data,
// for all instances that share the fleet's EpochKey. It returns the previous
// length. To lengthen the TTL of a fleet, raise the quarantine, wait for
// length, then roll the instances out. To shorten it, roll them out, then lower
// the quarantine.
//
// Redis grants no free lease until the longer of both quarantines has passed.
// The leases of an instance that stops before have no owner until then. Living
// owners lose nothing. more is as for Bootstrap. Errors:
// lease.ErrInvalidConfig; ErrOutlives while a lease or a heartbeat lives longer
// than length.
func SetQuarantine(ctx context.Context, client redis.UniversalClient, fleet Fleet, length time.Duration, more ...string) (
	before time.Duration, err error) {
	st, leases, err := storeOf(client, fleet)
	if err != nil {
		return 0, err
	}
	defer st.Close()
	if length < lease.TTLMin || length > lease.TTLMax {
		return 0, fmt.Errorf("%w: a quarantine of %v; it must be %v to %v", lease.ErrInvalidConfig, length, lease.TTLMin, lease.TTLMax)
	}
	return st.SetQuarantine(ctx, length, append(leases, more...)...)
}

// SetReplicas lowers the number of replicas that must acknowledge a write to
// the fleet's Replicas, for all instances that share its EpochKey. It returns
// the old and the new number. It is the last step when Redis gets fewer
// replicas: remove the surplus nodes for good, restart the instances one by one
// with the lower number, then call SetReplicas once. An instance that still has
// the higher number raises it again.
//
// Redis grants no free lease until the next quarantine has passed; living
// owners lose nothing. Errors: lease.ErrInvalidConfig; ErrReplicas while more
// replicas acknowledge than the fleet's Replicas.
func SetReplicas(ctx context.Context, client redis.UniversalClient, fleet Fleet) (before, after int, err error) {
	st, _, err := storeOf(client, fleet)
	if err != nil {
		return 0, 0, err
	}
	defer st.Close()
	return st.SetReplicas(ctx)
}
