package redisstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// However long Redis was away, the channel is tried again within a tenth of a second.
func TestAttemptsToListenComeSoonEnough(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{10 * time.Millisecond, 3 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1,
				Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("away") }})
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tried, last, longest := 0, time.Now(), time.Duration(0)
			redisstore.Listen(ctx, client, "x", timeout, func(string) {}, func(err error) {
				if err == nil {
					t.Error("nobody is there, and the channel is said to be heard")
				}
				longest = max(longest, time.Since(last))
				last = time.Now()
				tried++
			})
			if tried < 10 || longest != 100*time.Millisecond {
				t.Errorf("time-out %v: %d attempts, at most %v apart", timeout, tried, longest)
			}
		})
	}
}

// A connection that is ended as soon as the channel is heard is made ever more rarely too, and at once again after one that lasted.
func TestListenPausesAfterShortSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lives := time.Millisecond
		client := redis.NewClient(&redis.Options{Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go answer(far, "*3\r\n+subscribe\r\n+x\r\n:1\r\n")
				time.AfterFunc(lives, func() { far.Close() })
				return near, nil
			}})
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ended time.Time
		var pauses []time.Duration
		redisstore.Listen(ctx, client, "x", time.Minute, func(string) {}, func(err error) {
			if err != nil {
				ended, lives = time.Now(), time.Millisecond
				if len(pauses) == 5 { // the next one lasts
					lives = redisstore.ResubscribeMax
				}
				return
			}
			if !ended.IsZero() {
				pauses = append(pauses, time.Since(ended))
			}
			if len(pauses) == 7 {
				cancel()
			}
		})
		var want []time.Duration
		for _, ms := range []int{10, 20, 40, 80, 100, 100, 10} {
			want = append(want, time.Duration(ms)*time.Millisecond)
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("paused %v, want %v", pauses, want)
		}
	})
}
