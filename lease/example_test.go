package lease_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
)

// One of many replicas does the nightly work.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	keeper, err := lease.NewKeeper(client, lease.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := keeper.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer keeper.Stop() // releases what is held
	err = keeper.Do(ctx, "nightly", func(ctx context.Context, fence int64) error {
		return work(ctx, fence) // ctx ends with the lease; the fence goes along with every write
	})
	fmt.Println("nightly work:", err)
}

func work(ctx context.Context, fence int64) error { return ctx.Err() }

// Sessions are shared between replicas; each polls its own.
func ExampleManager() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	manager, err := lease.New(client, lease.Config{
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
