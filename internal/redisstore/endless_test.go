package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Whoever answers in place of Redis cannot keep an instance at a scan for ever, nor fill its memory.
func TestEndlessScansAreGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	long := strings.Repeat("x", 1<<20)
	for name, page := range map[string][]string{
		"full pages": make([]string, 100_000), "empty pages": nil, "long keys": {long, long, long, long},
	} {
		s, err := redisstore.New(server.Client(), redisstore.Options{Hooks: []redis.Hook{redistest.Endless{Page: page}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		pages := 0
		err = redisstore.Pages("x", func(uint64) ([]string, uint64, error) { pages++; return page, 17, nil }, func([]string) {})
		if !errors.Is(err, redisstore.ErrTooMany) || name == "long keys" && pages > 100 {
			t.Errorf("%s: %v after %d pages", name, err, pages)
		}
		if _, err := s.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "their scan does not end") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nor do owners that are none fill the memory of who looks at all leases.
func TestLongOwnersAreGivenUp(t *testing.T) {
	t.Parallel()
	const leases, bytes = 300, 1 << 20
	server := redistest.Start(t)
	owner := strings.Repeat("x", bytes)
	for i := range leases {
		server.Do("SET", fmt.Sprint("poll:lease:", i), owner, "PX", "600000")
	}
	s, err := redisstore.New(server.Client(), redisstore.Options{OpTimeout: time.Minute}) // what is read is large, and the machine may be slow
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if all, err := s.Holdings(t.Context()); !errors.Is(err, redisstore.ErrTooMany) {
		t.Errorf("%d leases, %v", len(all), err)
	}
}
