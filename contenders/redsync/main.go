// Command redsync is an adapter of github.com/go-redsync/redsync, which implements Redlock.
//
// It promises that nobody else gets the lock until Unlock or its expiry. Extend is the user's to call. Until says how long the lock is
// valid, with an allowance for drift; the documentation of the deprecated Valid refers to it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/contenders/adapter"
)

// servers returns a pool for the Redis of the storm, or for each of five servers behind --proxy R1=… to R5=….
func servers() (all []pools.Pool) {
	client := adapter.Redis(adapter.Careful())
	for i := 1; os.Getenv(fmt.Sprintf("LEASESTORM_PROXY_R%d", i)) != ""; i++ {
		opt := *client.Options()
		opt.Addr = os.Getenv(fmt.Sprintf("LEASESTORM_PROXY_R%d", i))
		all = append(all, goredis.NewPool(redis.NewClient(&opt)))
	}
	if all == nil {
		all = []pools.Pool{goredis.NewPool(client)}
	}
	return all
}

func main() {
	locks, ttl := redsync.New(servers()...), adapter.TTL()
	var mutex *redsync.Mutex
	// The README waits by Lock, with its default delays, and does not ask Until.
	answer := func(ok bool, err error) adapter.Answer {
		switch {
		case ok && adapter.Careful():
			return adapter.Answer{OK: true, Until: mutex.Until().UnixMilli()}
		case ok:
			return adapter.Answer{OK: true}
		}
		// With care, a failed Extend is repeated until the deadline. Without, it ends the work.
		return adapter.Answer{Error: fmt.Sprint(err), Retry: adapter.Careful()}
	}
	adapter.Serve(adapter.Lock{
		Acquire: func(ctx context.Context, key string) adapter.Answer {
			mutex = locks.NewMutex(key, redsync.WithExpiry(ttl))
			err := mutex.LockContext(ctx)
			return answer(err == nil, err)
		},
		Renew:   func() adapter.Answer { return answer(mutex.Extend()) },
		Release: func() error { _, err := mutex.Unlock(); return err },
	})
}
