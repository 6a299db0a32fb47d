package lease_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
)

// One of many replicas does the nightly work, once.
func Example() {
	ctx := context.Background()
	keeper, err := lease.NewKeeper(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}), lease.Config{})
	if err == nil {
		err = keeper.Start(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Stop()                                        // releases its leases
	err = keeper.DoOnce(ctx, "nightly", 12*time.Hour, nightly) // calls nightly(ctx, fence) on one replica
	fmt.Println("nightly work:", err)
}

// The context ends with the lease. The fence goes with every write.
func nightly(ctx context.Context, fence int64) error { return work(ctx, fence) }

func work(ctx context.Context, fence int64) error { return ctx.Err() }

// Sessions are shared between replicas; each polls its own.
func ExampleManager() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	manager, err := lease.NewManager(client, lease.Config{
		Sessions: func(context.Context) ([]string, error) {
			return []string{"0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := manager.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer manager.Stop()
	for _, id := range manager.OwnedSessions() {
		if manager.IsOwned(id) {
			fmt.Println("polling", id)
		}
	}
}
