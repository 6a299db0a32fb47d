package redisstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// ResubscribeMin is the lower bound of resubscribe.
const ResubscribeMin = 100 * time.Millisecond

// resubscribe is the longest pause between two attempts to subscribe, a tenth of the renewal interval. An instance without notices
// acquires leases late. The lower bound protects a Redis that is out of connections (G14).
func resubscribe(renew time.Duration) time.Duration { return max(renew/10, ResubscribeMin) }

const backOffMin = 10 * time.Millisecond

// Subscribe listens to the channel until ctx ends, as Listen does, and calls heard for each notice. Notices published during a gap are
// lost. The renewal interval renew bounds the pauses between attempts.
func (s *Store) Subscribe(ctx context.Context, renew time.Duration, heard func(core.Notice), up func(error)) {
	message := func(text string) {
		if n, ok := ParseNotice(text); ok {
			heard(n)
		}
	}
	Listen(ctx, s.client, s.wire.opt.Channel, s.wire.opt.OpTimeout, renew, message, up)
}

// Listen listens to a channel until ctx ends, on the calling goroutine. It calls message for each message, up(nil) when it has
// subscribed, and up with the error of each attempt that ended or failed. It pings a connection that is silent for the timeout, and
// closes it if there is no answer.
//
// Each attempt makes one connection. Pauses double up to resubscribe(renew). A subscription that lasts for at least the current pause,
// and for 100 ms, resets the pause. If Redis denies or lacks the command, the pause is half a renewal interval.
func Listen(ctx context.Context, client redis.UniversalClient, channel string, timeout, renew time.Duration, message func(string),
	up func(error)) {
	pause := backOffMin
	for ctx.Err() == nil {
		var since time.Time
		err := hear(ctx, client, channel, timeout, message, func() {
			since = time.Now()
			up(nil)
		})
		if !since.IsZero() && time.Since(since) >= max(pause, ResubscribeMin) {
			pause = backOffMin
		}
		up(err)
		wait := time.NewTimer(pause)
		if Lacks(err) {
			wait.Reset(max(pause, renew/2))
		}
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
		pause = min(2*pause, resubscribe(renew))
	}
}

// hear runs one subscription until it breaks. It calls up once it has subscribed.
func hear(ctx context.Context, client redis.UniversalClient, channel string, timeout time.Duration, message func(string),
	up func()) (err error) {
	defer func() { err = redisclient.Mask(err) }() // no hook masks these errors
	ctx, end := context.WithCancel(context.WithValue(ctx, hears{}, new(atomic.Bool)))
	defer end()
	ps := client.Subscribe(ctx) // connects below, to return the error
	defer ps.Close()
	if err := ps.Subscribe(ctx, channel); err != nil {
		return err
	}
	asked := false
	for {
		msg, err := ps.ReceiveTimeout(ctx, timeout)
		if err != nil {
			var reply redis.Error
			var slow net.Error
			switch {
			case asked && errors.As(err, &reply): // a refused PING, as with MISCONF, is an answer too
				asked = false
			case !errors.As(err, &slow) || !slow.Timeout() || asked || ps.Ping(ctx) != nil:
				return err
			default:
				asked = true
			}
			continue
		}
		asked = false
		switch m := msg.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				up()
			}
		case *redis.Message:
			message(m.Payload)
		}
	}
}
