package redisstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// However long Redis was away, the channel is tried again within a tenth of a renewal interval, and of a second at usual timings.
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
			redisstore.Listen(ctx, client, "x", timeout, redisstore.Resubscribe(renew), func(string) {}, func(err error) {
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

// An attempt makes one connection, also where that was made and then failed: go-redis has another one made at once.
func TestAttemptToListenDialsOnce(t *testing.T) {
	t.Parallel()
	// Each command is answered with the next of these, and with the end of the connection after the last.
	for name, says := range map[string][]string{
		"it is ended": nil, "there is no room": {"-ERR max number of clients reached\r\n"}, "it fails": {"-ERR\r\n", "-READONLY\r\n"},
		"what is heard ends": {"-ERR\r\n", "*3\r\n+subscribe\r\n+x\r\n:1\r\n"},
		"PING is refused":    {"-ERR\r\n", "*3\r\n+subscribe\r\n+x\r\n:1\r\n", "-READONLY\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
					dials++
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						command := make([]byte, 4096)
						for _, said := range says {
							if _, err := far.Read(command); err != nil {
								return
							}
							_, _ = io.WriteString(far, said)
						}
					}()
					return near, nil
				}})
				defer client.Close()
				own, err := redisstore.OwnClient(client, redisstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer own.Close()
				ctx, cancel := context.WithCancel(t.Context())
				attempts := 0
				redisstore.Listen(ctx, own, "x", time.Second, redisstore.ResubscribeMin, func(string) {}, func(err error) {
					if err == nil {
						return
					}
					if attempts++; attempts == 10 {
						cancel()
					}
				})
				if dials != attempts {
					t.Errorf("%d attempts made %d connections", attempts, dials)
				}
			})
		})
	}
}

// A connection that is ended as soon as the channel is heard is made ever more rarely too, and at once again after one that lasted.
func TestListenPausesAfterShortSubscriptions(t *testing.T) {
	t.Parallel()
	for longest, want := range map[time.Duration][]int64{ // in ms
		redisstore.ResubscribeMin: {10, 20, 40, 80, 100, 100, 10}, time.Minute: {10, 20, 40, 80, 160, 320, 10},
	} {
		synctest.Test(t, func(t *testing.T) { pauses(t, longest, want) })
	}
}

// pauses has the sixth attempt last as long as the next pause would be.
func pauses(t *testing.T, longest time.Duration, want []int64) {
	lives := time.Millisecond
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
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
	var paused []int64 // ms
	redisstore.Listen(ctx, client, "x", time.Minute, longest, func(string) {}, func(err error) {
		if err != nil {
			ended, lives = time.Now(), time.Millisecond
			if len(paused) == 5 { // the next one lasts
				lives = time.Duration(2*want[5]) * time.Millisecond
			}
			return
		}
		if !ended.IsZero() {
			paused = append(paused, time.Since(ended).Milliseconds())
		}
		if len(paused) == 7 {
			cancel()
		}
	})
	if !slices.Equal(paused, want) {
		t.Errorf("longest %v: paused %d ms, want %d", longest, paused, want)
	}
}

// answer says so to who subscribes, and refuses every other command, as a server does that knows nothing newer.
func answer(conn net.Conn, said string) {
	command := make([]byte, 4096)
	for {
		n, err := conn.Read(command)
		if err != nil {
			return
		}
		text := said
		if !strings.Contains(strings.ToLower(string(command[:n])), "\nsubscribe\r") {
			text = strings.Repeat("-ERR unknown command\r\n", strings.Count("\n"+string(command[:n]), "\n*"))
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}
