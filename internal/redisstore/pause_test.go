package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

// However long Redis was away, the pause before the next attempt to subscribe is at most resubscribe(renew).
func TestAttemptsToListenComeSoonEnough(t *testing.T) {
	t.Parallel()
	for timeout, renew := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 333 * time.Millisecond, 3 * time.Second: time.Second, time.Minute: 20 * time.Second,
	} {
		pause := max(renew/10, 100*time.Millisecond)
		synctest.Test(t, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1,
				Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("away") }})
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tried, last, longest := 0, time.Now(), time.Duration(0)
			redisstore.Listen(ctx, client, "x", timeout, renew, func(string) {}, func(err error) {
				if err == nil {
					t.Error("nobody is there, and the channel is said to be heard")
				}
				longest = max(longest, time.Since(last))
				last = time.Now()
				tried++
			})
			if tried < 10 || longest != pause {
				t.Errorf("time-out %v: %d attempts, at most %v apart, want %v", timeout, tried, longest, pause)
			}
		})
	}
}

// If Redis denies the subscription, the store tries it at most twice per renewal interval, with one connection each.
func TestARefusedSubscriptionIsTriedTwiceAnInterval(t *testing.T) { // G14
	for _, refusal := range []string{"-NOPERM no permissions to access a channel", "-ERR unknown command 'subscribe', with args"} {
		synctest.Test(t, func(t *testing.T) {
			const renew, intervals = 10 * time.Second, 10
			dials, refused := 0, 0
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Protocol: 2, DisableIdentity: true, MaxRetries: -1,
				Dialer: func(context.Context, string, string) (net.Conn, error) {
					dials++
					ours, theirs := net.Pipe()
					go servetest.Commands(theirs, func([]string) string { return refusal + "\r\n" })
					return ours, nil
				}})
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), intervals*renew-time.Second)
			defer cancel()
			redisstore.Listen(ctx, client, "x", 3*time.Second, renew, func(string) {}, func(err error) {
				if redisstore.Lacks(err) {
					refused++
				}
			})
			if dials > 2*intervals || refused < intervals || refused != dials {
				t.Errorf("%s: %d connections, %d refused, want 10 to 20 and all refused", refusal, dials, refused)
			}
		})
	}
}
