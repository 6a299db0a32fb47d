package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
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

// started returns a keeper on a new Redis in memory, for the examples below.
func started() (keeper *lease.Keeper, stop func()) {
	ctx, server := context.Background(), miniredis.NewMiniRedis()
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() }})
	err := admin.Bootstrap(ctx, client, lease.Config{})
	if err != nil {
		log.Fatal(err)
	}
	keeper, err = lease.NewKeeper(client, lease.Config{InstanceID: "host-1"})
	if err == nil {
		err = keeper.Start(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	return keeper, func() {
		_ = keeper.Stop()
		_ = client.Close()
	}
}

// Wait for the lease, and work under it.
func ExampleKeeper_Do() {
	keeper, stop := started()
	defer stop()
	err := keeper.Do(context.Background(), "invoices", func(ctx context.Context, fence int64) error {
		fmt.Println("working:", fence > 0, ctx.Err())
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// working: true <nil>
	// done: <nil>
}

// Skip the work if another caller does it.
func ExampleKeeper_TryDo() {
	keeper, stop := started()
	defer stop()
	ctx := context.Background()
	err := keeper.Do(ctx, "invoices", func(ctx context.Context, _ int64) error {
		another := make(chan error)
		go func() { another <- keeper.TryDo(context.WithoutCancel(ctx), "invoices", work) }()
		fmt.Println("held by another:", errors.Is(<-another, lease.ErrHeld))
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// held by another: true
	// done: <nil>
}

// Do work at most once an hour, whichever replica is asked.
func ExampleKeeper_DoOnce() {
	keeper, stop := started()
	defer stop()
	for range 2 {
		err := keeper.DoOnce(context.Background(), "clean-up", time.Hour, func(context.Context, int64) error {
			fmt.Println("cleaning up")
			return nil
		})
		fmt.Println("done:", err)
	}
	// Output:
	// cleaning up
	// done: <nil>
	// done: <nil>
}

// Hold a lease as long as it takes, instead of for one function.
func ExampleKeeper_Acquire() {
	keeper, stop := started()
	defer stop()
	ctx := context.Background()
	held, err := keeper.Acquire(ctx, "scanner")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", held.Valid(), held.Context().Err())
	fmt.Println("released:", held.Release(ctx))
	fmt.Println("held:", held.Valid(), held.Context().Err())
	// Output:
	// held: true <nil>
	// released: <nil>
	// held: false context canceled
}

// Try once, and learn who holds the lease.
func ExampleKeeper_TryAcquire() {
	keeper, stop := started()
	defer stop()
	ctx := context.Background()
	held, err := keeper.TryAcquire(ctx, "scanner")
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release(ctx)
	_, err = keeper.TryAcquire(ctx, "scanner")
	var op *lease.OpError
	if errors.As(err, &op) {
		fmt.Println(op.Name, "is held by", op.Owner)
	}
	// Output: scanner is held by host-1
}

// If this process dies, others can acquire the lease after five seconds.
func ExampleWithTTL() {
	keeper, stop := started()
	defer stop()
	ctx := context.Background()
	held, err := keeper.Acquire(ctx, "door", lease.WithTTL(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release(ctx)
	deadline, ok := held.Deadline()
	fmt.Println(ok, time.Until(deadline) < 5*time.Second)
	// Output: true true
}

// Follow what happens to the leases of this instance.
func ExampleKeeper_Subscribe() {
	keeper, stop := started()
	defer stop()
	acquired := make(chan string, 1)
	defer keeper.Subscribe(func(e lease.Event) {
		if e.Kind == lease.EventAcquired {
			acquired <- e.Lease.Name()
		}
	})()
	_ = keeper.Do(context.Background(), "invoices", work)
	fmt.Println("acquired:", <-acquired)
	// Output: acquired: invoices
}

// Sessions are shared between replicas; each polls its own.
func ExampleManager() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	manager, err := lease.NewManager(client, lease.ManagerConfig{
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
