//go:build ignore

// Command rueidislock is a lease adapter (docs/lease-protocol.md) of github.com/redis/rueidis/rueidislock, which renews by itself.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func main() {
	prefix, opt := os.Getenv("LEASESTORM_LEASE_PREFIX"), rueidis.MustParseURL(os.Getenv("LEASESTORM_REDIS_URL"))
	ttl, _ := time.ParseDuration(os.Getenv("LEASESTORM_TTL_MS") + "ms")
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: opt, KeyPrefix: strings.TrimSuffix(prefix, ":"), KeyMajority: 1, KeyValidity: ttl})
	var q struct{ ID, Op, Key any }
	held, release := map[any]context.Context{}, map[any]context.CancelFunc{}
	for in := json.NewDecoder(os.Stdin); err == nil && in.Decode(&q) == nil; {
		switch q.Op {
		case "acquire":
			ctx, cancel, refused := locker.TryWithContext(context.Background(), strings.TrimPrefix(q.Key.(string), prefix))
			if held[q.Key], release[q.Key] = ctx, cancel; refused != nil {
				fmt.Printf("{\"id\":%v,\"ok\":false,\"error\":%q}\n", q.ID, refused)
				continue
			}
			context.AfterFunc(ctx, func(key any) func() { return func() { fmt.Printf("{\"event\":\"lost\",\"key\":%q}\n", key) } }(q.Key))
		case "release":
			release[q.Key]()
		}
		fmt.Printf("{\"id\":%v,\"ok\":%t}\n", q.ID, q.Op == "release" || held[q.Key].Err() == nil)
	}
}
