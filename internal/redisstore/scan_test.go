package redisstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// cutShort is a hook that fails every answer to a scan in which a name is longer than an ID may be, as a guard that bounds answers does.
type cutShort struct{ redistest.Endless }

func (cutShort) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		text := cmd.String()
		if strings.Contains(text, strings.Repeat("x", 2*redisstore.NameMax)) {
			err = net.ErrClosed
			cmd.SetErr(err)
		}
		return err
	}
}

// Whoever may write one key cannot keep instances from finding the others by its name: Redis itself cuts what it sends of a name.
func TestLongNamesAreCut(t *testing.T) { // G8
	server := redistest.Start(t)
	s := newStore(t, server.Client(), redisstore.Options{Hooks: []redis.Hook{cutShort{}}})
	long := strings.Repeat("x", 1<<20)
	for _, key := range []string{"poll:node:a", "poll:node:" + long, "poll:lease:a", "poll:lease:" + long} {
		server.Do("SET", key, "a", "PX", "600000")
	}
	now := time.UnixMilli(1_000_000_000_000)
	server.Do("SET", "beat:a", now.UnixMilli())
	server.Do("SET", "beat:"+long, now.UnixMilli())
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].ID != "a" {
		t.Errorf("heartbeats %.100v, %v", nodes, err)
	}
	if _, n, err := s.SweepHeartbeats(t.Context(), "beat:", &redisstore.Sweep{}, time.Hour); err != nil || n != 1 {
		t.Errorf("%d heartbeats swept, %v", n, err)
	}
	if err := s.Permitted(t.Context(), redisstore.Use{Registry: true}); err != nil {
		t.Errorf("permitted: %.200v", err)
	}
}

// elsewhere is a hook that answers scans with keys that were not asked for, as no Redis does.
type elsewhere struct{ redistest.Endless }

func (elsewhere) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if script, ok := cmd.(*redis.Cmd); ok {
			script.SetVal([]any{"0", []any{"secret"}})
			return nil
		}
		return next(ctx, cmd)
	}
}

// What takes the place of Redis cannot have a key taken for one that was asked for; which may be the password, and is not repeated.
func TestKeysOfAnotherPrefixAreRefused(t *testing.T) {
	c := client(t, redis.Options{Addr: redistest.Start(t).Addr()})
	c.AddHook(elsewhere{})
	var found []string
	err := redisstore.Names(t.Context(), c, "session:", func(names []string) { found = slices.Concat(found, names) })
	if !errors.Is(err, redisstore.ErrNotRedis) || len(found) != 0 || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, %v", found, err)
	}
}
