package redisstore

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Bounds of the pause between two attempts to subscribe.
const (
	backOffMin = 10 * time.Millisecond
	backOffMax = time.Second
)

// Subscribe hears the channel until ctx ends, on the calling goroutine: it calls heard for each notice, and up at each
// change, with true when the channel is (again) being heard and false when it is not. A connection that is silent for
// OpTimeout is asked for a sign of life and given up if none comes. Redis keeps no notices: what was published while up
// was false is lost.
func (s *Store) Subscribe(ctx context.Context, heard func(core.Notice), up func(bool)) {
	pause := backOffMin
	for ctx.Err() == nil {
		if s.hear(ctx, heard, up) {
			pause = backOffMin
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
		pause = min(2*pause, backOffMax)
	}
}

// hear is one subscription. It reports whether it ever came about.
func (s *Store) hear(ctx context.Context, heard func(core.Notice), up func(bool)) (subscribed bool) {
	ps := s.client.Subscribe(ctx) // connects below, so that the error is seen
	// Receive honours deadlines, not the end of ctx; closing the connection ends it.
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() })
	defer func() {
		stop()
		_ = ps.Close()
		if subscribed {
			up(false)
		}
	}()
	if err := ps.Subscribe(ctx, s.wire.opt.Channel); err != nil {
		return false
	}
	asked := false
	for {
		msg, err := ps.ReceiveTimeout(ctx, s.wire.opt.OpTimeout)
		if err != nil {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || asked || ps.Ping(ctx) != nil {
				return subscribed
			}
			asked = true
			continue
		}
		asked = false
		switch m := msg.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				subscribed = true
				up(true)
			}
		case *redis.Message:
			if n, ok := ParseNotice(m.Payload); ok {
				heard(n)
			}
		}
	}
}
