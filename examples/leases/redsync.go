//go:build ignore

// Command redsync is a lease adapter (docs/lease-protocol.md) of github.com/go-redsync/redsync. Its deadline is Until.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	opt, _ := redis.ParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	rs, locks := redsync.New(goredis.NewPool(redis.NewClient(opt))), map[string]*redsync.Mutex{}
	var q struct {
		ID, TTL_MS int
		Op, Key    string
	}
	for in := json.NewDecoder(os.Stdin); in.Decode(&q) == nil; {
		ok, err := true, error(nil)
		switch q.Op {
		case "acquire":
			locks[q.Key] = rs.NewMutex(q.Key, redsync.WithExpiry(time.Duration(q.TTL_MS)*time.Millisecond))
			err = locks[q.Key].TryLock()
		case "renew":
			ok, err = locks[q.Key].Extend()
		case "release":
			ok, err = locks[q.Key].Unlock()
		}
		fmt.Printf("{\"id\":%d,\"ok\":%t,\"retry\":true,\"error\":%q,\"until_unix_ms\":%d}\n",
			q.ID, ok && err == nil, fmt.Sprint(err), locks[q.Key].Until().UnixMilli())
	}
}
