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

// Nor do owners that are none fill the memory of who looks at all leases, or take the time in which the others are read; also of who may
// run no script.
func TestLongOwnersAreCut(t *testing.T) {
	t.Parallel()
	const leases, bytes = 20, 1 << 20
	server := redistest.Start(t)
	server.Do("SET", "poll:lease:good", "a", "PX", "600000")
	owner := strings.Repeat("x", bytes)
	for i := range leases {
		server.Do("SET", fmt.Sprint("poll:lease:", i), owner, "PX", "600000")
	}
	server.Do("ACL", "SETUSER", "watcher", "on", ">p", "~*", "-@all", "+mget", "+pttl", "+scan", "+ping")
	watcher := *server.Client().Options()
	watcher.Username, watcher.Password = "watcher", "p"
	for name, c := range map[string]*redis.Client{"an instance": server.Client(), "who only looks": client(t, watcher)} {
		s, err := redisstore.New(c, redisstore.Options{OpTimeout: time.Minute}) // what is read is large, and the machine may be slow
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		all, err := s.Holdings(t.Context())
		if err != nil || len(all) != leases+1 || all[leases].Owner != "a" {
			t.Fatalf("%s: %d leases, %v", name, len(all), err)
		}
		for _, h := range all[:leases] {
			if h.Owner != owner[:redisstore.NameMax+1] || h.Foreign {
				t.Errorf("%s: %q has an owner of %d bytes, foreign: %v", name, h.ID, len(h.Owner), h.Foreign)
			}
		}
	}
}
