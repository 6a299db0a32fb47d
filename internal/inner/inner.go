// Package inner gives the packages beside lease, and the tests of users, access to parts of lease that its API does not show.
package inner

import (
	"context"
	"time"
)

// Instance is leasetest's access to an instance. Its functions may be called at any time by any goroutine.
type Instance struct {
	// Renew renews the lease under this key of Redis now, instead of at the next tick, if the instance holds it.
	Renew func(key string)
	// Fence returns the fence of the trusted term under this key, 0 if there is none.
	Fence func(key string) int64
	// Bootstrap declares its Redis new.
	Bootstrap func(context.Context) error
}

// Made is called for each new instance, with its client. leasetest sets it before a test begins; in production it is nil.
var Made func(client any, i Instance)

// Of returns a *lease.Keeper, *lease.Manager or *lease.Lease with the methods that only the packages beside lease call; any other value
// unchanged. Package lease sets it, and documents the methods.
var Of func(of any) any

// Keeper has such methods of a *lease.Keeper.
type Keeper interface {
	Want(name string) error
	Unwant(name string)
	Doubt()
	Wrote(sent time.Time)
	Evict(ctx context.Context, owner string, names ...string) ([]string, error)
}

// Lease has such methods of a *lease.Lease.
type Lease interface {
	Abandon()
	Recovered()
	Renewals() int64
	WindowEnd() time.Time
	Yield()
}

// OfKeeper returns the methods of a *lease.Keeper.
func OfKeeper(k any) Keeper { return Of(k).(Keeper) }

// OfLease returns the methods of a *lease.Lease.
func OfLease(h any) Lease { return Of(h).(Lease) }
