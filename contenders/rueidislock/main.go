// Command rueidislock is an adapter of github.com/redis/rueidis/rueidislock.
//
// It promises to renew by itself, to wake waiters at a release, and to cancel the returned context at once when the lock is not held any
// more, for example because Redis is down or the key was deleted.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/leasestorm/leasestorm/contenders/adapter"
)

func main() {
	prefix, opt := os.Getenv("LEASESTORM_LEASE_PREFIX"), rueidis.MustParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	if name, sentinels := adapter.Sentinels(); name != "" {
		opt.InitAddress, opt.Sentinel.MasterSet = sentinels, name
	}
	option := rueidislock.LockerOption{
		ClientOption: opt, KeyPrefix: strings.TrimSuffix(prefix, ":"), KeyValidity: adapter.TTL(),
		KeyMajority: 1, NoLoopTracking: true, // as the README advises for one Redis of version 7.0.5 or later
	}
	if adapter.Careful() {
		// An extension may take until its own new deadline, so that a context can end up to an ExtendInterval late.
		option.ExtendInterval = adapter.TTL() / 10
		option.ClientOption.Dialer.Timeout, option.ClientOption.Dialer.KeepAlive = adapter.TTL()/10, adapter.TTL()/10
		option.ClientOption.ConnWriteTimeout = adapter.TTL() / 10
	}
	locks, err := rueidislock.NewLocker(option)
	if err != nil {
		panic(err)
	}
	var held context.Context
	var release context.CancelFunc
	adapter.Serve(adapter.Lock{
		Acquire: func(ctx context.Context, key string) adapter.Answer {
			got, cancel, err := locks.WithContext(ctx, strings.TrimPrefix(key, prefix))
			if err == nil {
				held, release = got, cancel
				context.AfterFunc(got, func() { adapter.Lost(key) })
			}
			return adapter.Result(err)
		},
		Renew:   func() adapter.Answer { return adapter.Result(held.Err()) },
		Release: func() error { release(); return nil },
	})
}
