// Command keeper is an adapter of package lease of this repository, by the same rules as the others.
//
// It promises that no two instances believe in a lease at once, also when Redis loses its data; that the lease's context ends before the
// lease can have another owner; and fences that only grow (docs/guarantees.md).
package main

import (
	"context"
	"os"
	"strconv"

	"github.com/leasestorm/leasestorm/contenders/adapter"
	"github.com/leasestorm/leasestorm/lease"
)

func main() {
	prefix := os.Getenv("LEASESTORM_LEASE_PREFIX")
	replicas, _ := strconv.Atoi(os.Getenv("LEASESTORM_REPLICAS")) // 0 without replicas
	// The client has its default options also with care: the library has time-outs of its own.
	keeper, err := lease.NewKeeper(adapter.Redis(false), lease.Config{
		TTL: adapter.TTL(), LeasePrefix: prefix, InstanceID: os.Getenv("LEASESTORM_INSTANCE"), Replicas: replicas,
	})
	if err == nil {
		err = keeper.Start(context.Background())
	}
	if err != nil {
		panic(err)
	}
	var held *lease.Lease
	answer := func() adapter.Answer {
		a := adapter.Result(context.Cause(held.Context()))
		a.Fence = held.Fence() // which the README sends with each write
		if a.OK && !held.Valid() {
			a.OK, a.Retry, a.Error = false, true, "a renewal is overdue"
		}
		if until, ok := held.Deadline(); ok && adapter.Careful() {
			a.Until = until.UnixMilli()
		}
		return a
	}
	adapter.Serve(adapter.Lock{
		Acquire: func(ctx context.Context, key string) adapter.Answer {
			got, err := keeper.Acquire(ctx, key[len(prefix):])
			if err != nil {
				return adapter.Result(err)
			}
			held = got
			context.AfterFunc(got.Context(), func() { adapter.Lost(key) }) // the README's work ends with its context
			return answer()
		},
		Renew:   answer,
		Release: func() error { return held.Release(context.Background()) },
	})
}
