package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// byRules returns a client of a user who may do what the rules say.
func byRules(t *testing.T, server *redistest.Server, rules redisstore.Rules) *redis.Client {
	t.Helper()
	line := []any{"ACL", "SETUSER", "instance", "on", ">p", "resetkeys", "-@all"}
	for _, word := range strings.Fields(rules.String()) {
		line = append(line, word)
	}
	if err := server.Client().Do(t.Context(), line...).Err(); err != nil {
		t.Fatal(err)
	}
	own := *server.Client().Options()
	own.Username, own.Password = "instance", "p"
	client := redis.NewClient(&own)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// An instance reads an operator's request with its own rights. The request is neither a lease nor a fence. A notice without a request has
// no effect.
func TestAskedStandsInRedis(t *testing.T) { // G1
	for _, prefix := range []string{"", "{poll}:lease:"} {
		server := redistest.Start(t)
		o := redisstore.Options{Quarantine: time.Minute, LeasePrefix: prefix}
		operator, _ := bootstrapped(t, server.Client(), o)
		instance := newStore(t, byRules(t, server, operator.Options().Rules(redisstore.Use{})), o)
		h := redisstore.Holding{ID: "thing", Owner: "a", Fence: 5}
		g := redisstore.Give{From: "operator", Lease: "thing", Owner: "a", Fence: 5}
		if instance.Asked(t.Context(), g) != "" {
			t.Error("asked for before anybody asked")
		}
		if err := operator.AskBack(t.Context(), "operator", time.Minute, h); err != nil {
			t.Fatal(err)
		}
		if instance.Asked(t.Context(), redisstore.Give{From: "x", Lease: "thing", Owner: "a", Fence: 5}) != "operator" {
			t.Errorf("%q: an instance does not read what is asked for", prefix)
		}
		for _, other := range []redisstore.Give{
			{From: "operator", Lease: "thing", Owner: "a", Fence: 6}, {From: "operator", Lease: "thing", Owner: "b", Fence: 5},
			{From: "operator", Lease: "thing", Owner: "a", Fence: 15}, {From: "operator", Lease: "other", Owner: "a", Fence: 5},
		} {
			if instance.Asked(t.Context(), other) != "" {
				t.Errorf("asked for: %+v", other)
			}
		}
		if all, err := operator.Holdings(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("it is taken for a lease: %+v, %v", all, err)
		}
	}
}
