package election_test

import (
	"context"
	"log"
	"net"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
)

// newClient returns the client of a new Redis in memory, for the examples. lease/leasetest needs a test's bubble, which an example has not.
func newClient() *redis.Client {
	server := miniredis.NewMiniRedis()
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() }})
	if err := admin.Bootstrap(context.Background(), client, election.Config{}); err != nil {
		log.Fatal(err)
	}
	return client
}
