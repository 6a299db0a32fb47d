package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

func TestNewRefusesOptions(t *testing.T) {
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _, _ = single.Close(), cluster.Close() })
	tests := []struct {
		name   string
		client redis.UniversalClient
		opt    redisstore.Options
		says   string
	}{
		{"quarantine", single, redisstore.Options{Quarantine: -1}, "Quarantine is -1ns"},
		{"time-out", single, redisstore.Options{OpTimeout: -1}, "OpTimeout is -1ns"},
		{"pool", single, redisstore.Options{PoolSize: -1}, "PoolSize is -1"},
		{"equal prefixes", single, redisstore.Options{LeasePrefix: "a:", NodePrefix: "a:"}, "must not begin with"},
		{"nested prefixes", single, redisstore.Options{LeasePrefix: "a:", NodePrefix: "a:b:"}, "must not begin with"},
		{"epoch among leases", single, redisstore.Options{EpochKey: "poll:lease:epoch"}, "EpochKey"},
		{"group among leases", single, redisstore.Options{EpochKey: "app", LeasePrefix: "app:"}, "app:group"},
		{"cluster, no tag", cluster, redisstore.Options{}, "hash tag"},
		{"cluster, two tags", cluster, redisstore.Options{
			LeasePrefix: "{a}:lease:", NodePrefix: "{b}:node:", EpochKey: "{a}:epoch"}, "hash tag"},
		{"cluster, empty tag", cluster, redisstore.Options{
			LeasePrefix: "{}:lease:", NodePrefix: "{}:node:", EpochKey: "{}:epoch"}, "hash tag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := redisstore.New(tt.client, tt.opt)
			if !errors.Is(err, redisstore.ErrInvalidOptions) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("New: %v, want ErrInvalidOptions saying %q", err, tt.says)
			}
		})
	}
}

// foreign is a client of a type that New does not know.
type foreign struct{ redis.UniversalClient }

func TestNewRefusesClients(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, client := range map[string]redis.UniversalClient{
		"ring": ring, "foreign": foreign{}, "nil": nil, "nil client": (*redis.Client)(nil),
		"nil cluster": (*redis.ClusterClient)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			opt := redisstore.Options{LeasePrefix: "{p}l:", NodePrefix: "{p}n:", EpochKey: "{p}e"}
			if _, err := redisstore.New(client, opt); !errors.Is(err, redisstore.ErrUnsupportedClient) {
				t.Fatalf("New: %v, want ErrUnsupportedClient", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	o := s.Options()
	if o.LeasePrefix != "poll:lease:" || o.NodePrefix != "poll:node:" || o.EpochKey != "poll:epoch" ||
		redisstore.DefaultFenceTTL != 24*time.Hour || o.Quarantine != 30*time.Second {
		t.Fatalf("defaults are not the specification's: %+v", o)
	}
}
