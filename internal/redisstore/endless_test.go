package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

// Whoever answers in place of Redis cannot keep an instance at a scan for ever, nor fill its memory.
func TestEndlessScansAreGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	long := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		page []string
		want error
	}{
		"full pages": {make([]string, 100_000), redisstore.ErrTooMany}, "empty pages": {nil, redisstore.ErrTooMany},
		"names that are longer than was asked for": {[]string{long}, redisstore.ErrNotRedis},
	} {
		page := tt.page
		s := newStore(t, server.Client(), redisstore.Options{Hooks: []redis.Hook{redistest.Endless{Page: page}}})
		c := client(t, *server.Client().Options())
		c.AddHook(redistest.Endless{Page: page})
		if err := redisstore.Names(t.Context(), c, "x", func([]string) {}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if _, err := s.Nodes(t.Context()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		var walk redisstore.Sweep
		var err error
		for more := true; more; {
			more, _, err = s.SweepHeartbeats(t.Context(), "x", &walk, time.Hour)
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: swept until %v, want %v", name, err, tt.want)
		}
	}
}

// Whoever answers a little at a time does not hold what an operator asks for, for longer than a reading of everything may take; nor for longer
// than the caller's ctx, and says so then too.
func TestSlowReadingsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leasetest.New(t)
		of := func(hooks ...redis.Hook) *redisstore.Store {
			s, err := redisstore.New(r.Client(), redisstore.Options{OpTimeout: 2 * time.Second, Quarantine: 30 * time.Second, Hooks: hooks})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		givenUp := func(what string, most time.Duration, begin func(*redisstore.Store) error) {
			began := time.Now()
			err := begin(of(redistest.Endless{Pause: time.Second}))
			if took := time.Since(began); !errors.Is(err, redisstore.ErrSlow) || took < most-2*time.Second || took > most+2*time.Second {
				t.Errorf("%s: %v after %v, want ErrSlow after %v", what, err, took, most)
			}
		}
		const whole = redisstore.WholeTimes * 2 * time.Second
		givenUp("a first deployment", whole, func(s *redisstore.Store) error { return s.Bootstrap(t.Context()) })
		givenUp("one that is in a hurry", 10*time.Second, func(s *redisstore.Store) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return s.Bootstrap(ctx)
		})
		if err := of().Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
		givenUp("a shorter quarantine", whole, func(s *redisstore.Store) error {
			_, err := s.SetQuarantine(t.Context(), 10*time.Second)
			return err
		})
	})
}

// A scan of a cluster is given up after as many keys as that of one server, however many masters bring them.
func TestMastersShareAScansLimit(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{End: 8191, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}, {Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:2"}}},
			}, nil
		},
		NewClient: func(o *redis.Options) *redis.Client {
			c := redis.NewClient(o)
			c.AddHook(redistest.Endless{Page: make([]string, 1000)})
			return c
		},
	})
	defer cluster.Close()
	const most = 1 << 20
	taken := 0
	if err := redisstore.Names(t.Context(), cluster, "x", func(names []string) { taken += len(names) }); !errors.Is(err, redisstore.ErrTooMany) || taken > most {
		t.Errorf("%d names, %v; want %d at most", taken, err, most)
	}
}
