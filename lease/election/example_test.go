package election_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/lease/election"
)

// Call a function while this process leads.
func ExampleElection_Run() {
	client := newClient()
	defer client.Close()
	member, err := election.New(client, election.Config{LeaderKey: "my-app:leader"})
	if err != nil {
		log.Fatal(err)
	}
	err = member.Run(context.Background(), func(ctx context.Context, fence int64) error {
		fmt.Println("leading:", fence > 0) // the fence goes with every write, and ctx ends with the leadership
		return nil                         // releases the leadership and ends this member's part
	})
	fmt.Println("over:", err)
	// Output:
	// leading: true
	// over: <nil>
}

// Do periodic work only on the leader.
func ExampleElection_IsLeader() {
	client := newClient()
	defer client.Close()
	member, err := election.New(client, election.Config{})
	if err == nil {
		err = member.Start(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
	defer member.Stop()
	for range time.Tick(10 * time.Millisecond) {
		if member.IsLeader() {
			fmt.Println("the leader's work")
			return
		}
	}
	// Output: the leader's work
}

// Follow the transitions of a member.
func ExampleElection_Subscribe() {
	client := newClient()
	defer client.Close()
	member, err := election.New(client, election.Config{InstanceID: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	leads := make(chan struct{})
	cancel := member.Subscribe(func(e election.Event) {
		switch e.Kind {
		case election.EventStateChanged:
			fmt.Println(e.From, "to", e.To)
		case election.EventLeadershipAcquired:
			close(leads)
		}
	})
	if err := member.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	<-leads
	cancel()
	fmt.Println("stopped:", member.Stop())
	// Output:
	// FOLLOWER to CANDIDATE
	// CANDIDATE to LEADER
	// stopped: <nil>
}

// Take part in many elections on the same connections.
func ExampleGroup() {
	client := newClient()
	defer client.Close()
	group, err := election.NewGroup(client, election.Config{InstanceID: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Stop()
	var all sync.WaitGroup
	for _, key := range []string{"billing:leader", "mail:leader"} {
		member, err := group.Election(key)
		if err != nil {
			log.Fatal(err)
		}
		all.Go(func() {
			_ = member.Run(context.Background(), func(context.Context, int64) error {
				fmt.Println(group.InstanceID(), "leads", member.Key())
				return nil
			})
		})
	}
	all.Wait()
	// Unordered output:
	// host-1 leads billing:leader
	// host-1 leads mail:leader
}
