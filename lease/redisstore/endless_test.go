package redisstore_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// endless is a Redis whose scans bring a page again and again, as none does.
type endless struct{ page []string }

func (e endless) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (e endless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if scan, ok := cmd.(*redis.ScanCmd); ok {
			scan.SetVal(e.page, 17)
			return nil
		}
		return next(ctx, cmd)
	}
}

func (e endless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Whoever answers in place of Redis cannot keep an instance at a scan for ever, nor fill its memory.
func TestEndlessScansAreGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, page := range map[string][]string{"full pages": make([]string, 100_000), "empty pages": nil} {
		s, err := redisstore.New(server.Client(), redisstore.Options{Hooks: []redis.Hook{endless{page}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if _, err := s.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "their scan does not end") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
