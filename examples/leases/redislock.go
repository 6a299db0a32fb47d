//go:build ignore

// Command redislock is a lease adapter (docs/lease-protocol.md) of github.com/bsm/redislock. It names no deadline: use --check.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func main() {
	opt, _ := redis.ParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	client, locks, ctx := redislock.New(redis.NewClient(opt)), map[string]*redislock.Lock{}, context.Background()
	var q struct {
		ID, TTL_MS int
		Op, Key    string
	}
	for in := json.NewDecoder(os.Stdin); in.Decode(&q) == nil; {
		lock, ttl, left, err := locks[q.Key], time.Duration(q.TTL_MS)*time.Millisecond, time.Duration(1), error(nil)
		switch q.Op {
		case "acquire":
			locks[q.Key], err = client.Obtain(ctx, q.Key, ttl, nil)
		case "renew":
			err = lock.Refresh(ctx, ttl, nil)
		case "check":
			left, err = lock.TTL(ctx)
		case "release":
			err = lock.Release(ctx)
		}
		lost := left == 0 || err == redislock.ErrNotObtained || err == redislock.ErrLockNotHeld
		fmt.Printf("{\"id\":%d,\"ok\":%t,\"retry\":%t,\"error\":%q}\n", q.ID, err == nil && !lost, !lost, fmt.Sprint(err))
	}
}
