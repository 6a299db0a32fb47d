package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
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

// A service whose processes have a fixed place (a StatefulSet, a systemd unit) does not wait a TTL for what the process before it held:
// its supervisor starts it only once that one is dead. The ID of the one before is kept where the service keeps its state.
func ExampleKeeper_Evict() {
	ctx, state := context.Background(), "/var/lib/indexer/instance"
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	id := lease.GenerateInstanceID()
	keeper, err := lease.NewKeeper(client, lease.Config{InstanceID: id})
	if err != nil {
		log.Fatal(err)
	}
	if err := keeper.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer keeper.Stop()
	if before, err := os.ReadFile(state); err == nil { // it is dead: the supervisor has waited for it
		freed, err := keeper.Evict(ctx, string(before), "index", "compact")
		fmt.Println("free at once:", freed, err) // with an error: in doubt, and free after a TTL at the latest
	}
	if err := os.WriteFile(state, []byte(id), 0o600); err != nil { // before anything is acquired under this ID
		log.Fatal(err)
	}
	err = keeper.Do(ctx, "index", work)
	fmt.Println("indexed:", err)
}

// A process hands a lease to a successor that it has chosen, and nobody else can take it in between: it ends its work, says so over a
// channel of its own (here ready), and the successor adopts the lease under a fence of its own.
func ExampleKeeper_Adopt() {
	var successor *lease.Keeper      // of the process that takes over
	var ready = make(chan string, 1) // the ID of an owner whose work has ended, and which has forgotten its lease (Hold.Abandon)
	ctx := context.Background()
	hold, err := successor.Adopt(ctx, "stream", <-ready)
	switch {
	case errors.Is(err, lease.ErrHeld): // somebody else was faster: the owner's term had ended before
		fmt.Println("not this time:", err)
	case err != nil: // not known whether it was passed on: it is free after a TTL at the latest
		fmt.Println("later:", err)
	default:
		defer hold.Drop()
		fmt.Println("streaming:", work(hold.Context(), hold.Fence()))
	}
}

// Work that cannot be stopped is begun only if it ends within the trust window, as it stands without another renewal.
func ExampleHold_WindowEnd() {
	const takes = 4 * time.Second
	begin := func(h *lease.Hold) bool { return h.Valid() && time.Until(h.WindowEnd()) > takes }
	var hold *lease.Hold // of TryAcquire
	if !begin(hold) {
		fmt.Println("not now: ask again after the next renewal (lease.EventRenewed)")
	}
}
