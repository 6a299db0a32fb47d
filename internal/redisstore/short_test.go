package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// short is a Redis that answers an MGET with fewer values than keys, as none does.
type short struct{ values int }

func (s short) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s short) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s short) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			if mget, ok := c.(*redis.SliceCmd); ok {
				mget.SetVal(mget.Val()[:s.values])
			}
		}
		return err
	}
}

// Whoever answers in place of Redis cannot end the process of a follower by a short answer.
func TestShortAnswersAreRefused(t *testing.T) {
	server := redistest.Start(t)
	for values := range 3 {
		s, err := redisstore.New(server.Client(), redisstore.Options{Hooks: []redis.Hook{short{values}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		of := []redisstore.Glance{{Lease: "l", Prefix: "beat:", Of: "a"}}
		if err := s.Glances(t.Context(), of); !errors.Is(err, redisstore.ErrNotRedis) {
			t.Errorf("%d of 3 values: %v, want ErrNotRedis", values, err)
		}
	}
}
