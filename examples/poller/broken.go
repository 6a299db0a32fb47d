package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// deaf breaks leases on purpose, to try simulate audit: from some time on it answers each script as Redis did before, and sends nothing.
// The leases expire, and their owner does not notice.
type deaf struct {
	from    time.Time
	answers sync.Map // the last answer to each script
}

func (d *deaf) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (d *deaf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *deaf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		script, ok := c.(*redis.Cmd)
		if !ok || c.Name() != "evalsha" {
			return next(ctx, c)
		}
		key := fmt.Sprint(c.Args()[1:3]...) // the script, and the number of its keys
		if answer, ok := d.answers.Load(key); ok && time.Now().After(d.from) {
			script.SetVal(answer)
			return nil
		}
		err := next(ctx, c)
		if err == nil {
			d.answers.Store(key, script.Val())
		}
		return err
	}
}
