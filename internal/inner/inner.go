// Package inner is how the packages beside lease, and the tests of users, reach what the API of lease does not show.
package inner

import (
	"context"
	"time"
)

// Instance is what lease lets leasetest do with one of its instances. Its functions may be called at any time by any goroutine.
type Instance struct {
	// Renew has the lease under that key of Redis renewed now, if the instance holds it, and not at the next tick.
	Renew func(key string)
	// Fence returns the fence of the term under that key which the instance believes in now, 0 if it believes in none.
	Fence func(key string) int64
	// Bootstrap declares its Redis new.
	Bootstrap func(context.Context) error
}

// Made is told each instance that is made, and by which client. leasetest sets it before a test begins; in production it is nil.
var Made func(client any, i Instance)

// Of returns a *lease.Keeper, *lease.Manager or *lease.Lease with the methods that only the packages beside lease call; any other value
// unchanged. Package lease sets it, and documents the methods.
var Of func(of any) any

// Keeper has those of a *lease.Keeper.
type Keeper interface {
	Want(name string) error
	Unwant(name string)
	Doubt()
	Wrote(sent time.Time)
	Evict(ctx context.Context, owner string, names ...string) ([]string, error)
}

// Lease has those of a *lease.Lease.
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
