package redisstore_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Whoever answers in place of Redis cannot keep an instance at a scan for ever, nor fill its memory.
func TestEndlessScansAreGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, page := range map[string][]string{"full pages": make([]string, 100_000), "empty pages": nil} {
		s, err := redisstore.New(server.Client(), redisstore.Options{Hooks: []redis.Hook{redistest.Endless{Page: page}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if _, err := s.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "their scan does not end") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
