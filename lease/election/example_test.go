package election_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/election"
)

// Do this while leading. The context ends with the leadership; the fence goes along with every write.
func ExampleElection_Run() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	member, err := election.New(client, election.Config{LeaderKey: "my-app:leader"})
	if err != nil {
		log.Fatal(err)
	}
	err = member.Run(context.Background(), func(ctx context.Context, fence int64) error {
		return serve(ctx, fence)
	})
	fmt.Println("over:", err)
}

// A member that is asked, and tells.
func ExampleElection_Subscribe() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	member, err := election.New(client, election.Config{InstanceID: "instance-1", LeaderTTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	remove := member.Subscribe(func(e election.Event) {
		if e.Kind == election.EventLeadershipAcquired {
			fmt.Println("leading, fence", e.Fence)
		}
	})
	defer remove()
	if err := member.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer member.Stop()
	if fence, ok := member.Fence(); ok {
		fmt.Println("still leading, fence", fence)
	}
}

func serve(context.Context, int64) error { return nil }
