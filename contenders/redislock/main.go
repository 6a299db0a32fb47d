// Command redislock is an adapter of github.com/bsm/redislock.
//
// It promises little: Obtain sets the key if it is free, Refresh and Release compare the token, TTL says how long the lock has left.
// It starts no goroutine, so renewals are the user's.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/leasestorm/leasestorm/contenders/adapter"
)

func main() {
	locks, ttl := redislock.New(adapter.Redis(adapter.Careful())), adapter.TTL()
	var lock *redislock.Lock
	adapter.Serve(adapter.Lock{
		Acquire: func(ctx context.Context, key string) adapter.Answer {
			// The examples of its documentation wait with this strategy, until a context ends.
			got, err := locks.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
			if err == nil {
				lock = got
			}
			return adapter.Result(err)
		},
		Renew: func() adapter.Answer {
			err := lock.Refresh(context.Background(), ttl, nil)
			a := adapter.Result(err) // the README ends the program at any error
			a.Retry = adapter.Careful() && err != nil && !errors.Is(err, redislock.ErrNotObtained)
			return a
		},
		// The README asks for the TTL after some work. With care, each use asks before it begins.
		Check: func() adapter.Answer {
			left, err := lock.TTL(context.Background())
			if err != nil {
				return adapter.Answer{Error: err.Error(), Retry: true}
			}
			return adapter.Answer{OK: left > 0}
		},
		Release: func() error { return lock.Release(context.Background()) },
	})
}
