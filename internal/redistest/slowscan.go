package redistest

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// SlowScan is a hook that makes a Redis whose scans find nothing and do not end; each answer takes so long.
type SlowScan time.Duration

// DialHook changes nothing.
func (SlowScan) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook answers scans.
func (s SlowScan) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		scan, ok := cmd.(*redis.ScanCmd)
		if !ok {
			return next(ctx, cmd)
		}
		scan.SetVal(nil, 17)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(s)):
			return nil
		}
	}
}

// ProcessPipelineHook changes nothing.
func (SlowScan) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
