package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// short is a Redis that answers a read of several keys with fewer values than keys, as none does.
type short struct{ values int }

func (s short) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s short) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s short) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			if mget, ok := c.(*redis.Cmd); ok {
				mget.SetVal(mget.Val().([]any)[:s.values])
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

// Nor by a number: go-redis makes room for as many values.
func TestNumbersAreNoLists(t *testing.T) {
	for _, reply := range []string{":-1", ":9223372036854775807", "+9223372036854775807", ":1000000000000", "$-1", "*-1"} {
		client := redis.NewClient(&redis.Options{Addr: answering(t, reply+"\r\n"), DisableIdentity: true, Protocol: 2, MaxRetries: -1})
		s, err := redisstore.New(client, redisstore.Options{OpTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Glances(t.Context(), []redisstore.Glance{{Lease: "l", Prefix: "beat:", Of: "a"}})
		if err == nil || strings.ContainsAny(reply, ":+") && !errors.Is(err, redisstore.ErrNotRedis) {
			t.Errorf("%q: %v, want ErrNotRedis", reply, err)
		}
		if err := errors.Join(s.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	}
}

// answering is the address of a server that answers every script so, and refuses all else.
func answering(t *testing.T, reply string) string {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) {
		servetest.Commands(c, func(words []string) string {
			if words[0] == "eval" {
				return reply
			}
			return "-ERR unknown command\r\n"
		})
	})
}
