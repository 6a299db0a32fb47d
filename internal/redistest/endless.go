package redistest

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Endless is a hook that makes a Redis whose scans bring the names of Page again and again, as none does.
type Endless struct {
	Page  []string
	Pause time.Duration // before each answer to one
}

// DialHook changes nothing.
func (e Endless) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook answers scans.
func (e Endless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if scan, ok := cmd.(*redis.ScanCmd); ok {
			scan.SetVal(e.Page, 17)
			return e.pause(ctx)
		}
		script, ok := cmd.(*redis.Cmd)
		if args := cmd.Args(); ok && len(args) == 7 && args[2] == 0 { // scan.lua, of a cursor, a pattern, a count and a length
			prefix := strings.TrimSuffix(args[4].(string), "*")
			page := make([]any, len(e.Page))
			for i, name := range e.Page {
				page[i] = prefix + name
			}
			script.SetVal([]any{"17", page})
			return e.pause(ctx)
		}
		return next(ctx, cmd)
	}
}

// pause waits before an answer.
func (e Endless) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(e.Pause):
		return nil
	}
}

// ProcessPipelineHook changes nothing.
func (e Endless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
