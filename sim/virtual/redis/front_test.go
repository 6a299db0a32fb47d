package redis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

func eachProtocol(t *testing.T, f func(t *testing.T, w *wired, client *goredis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run("RESP"+number(int64(protocol)), func(t *testing.T) {
			w := newWired(guestServer())
			f(t, w, w.client(t, protocol))
		})
	}
}

// go-redis finds a server that behaves like Redis.
func TestGoRedisCommands(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *wired, client *goredis.Client) {
		ctx := t.Context()
		if ok, err := client.SetNX(ctx, "lock", "me", time.Second).Result(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := client.SetNX(ctx, "lock", "you", time.Second).Result(); ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := client.PTTL(ctx, "lock").Val(); got <= 0 || got > time.Second {
			t.Errorf("PTTL %v", got)
		}
		w.advance(time.Second + time.Millisecond)
		if err := client.Get(ctx, "lock").Err(); !errors.Is(err, goredis.Nil) {
			t.Errorf("an expired lock: %v", err)
		}
		script := goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return {1, 'x', false}`)
		got, err := script.Run(ctx, client, []string{"lock"}, "me").Slice()
		if err != nil || !slices.Equal(got, []any{int64(1), "x", nil}) {
			t.Errorf("a script: %v %v", got, err)
		}
		cmds, err := client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.Set(ctx, "a", 1, 0)
			p.IncrBy(ctx, "a", 41)
			return nil
		})
		if err != nil || cmds[1].(*goredis.IntCmd).Val() != 42 {
			t.Errorf("a transaction: %v %v", cmds, err)
		}
		err = client.Watch(ctx, func(tx *goredis.Tx) error {
			client.Incr(ctx, "a")
			_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Set(ctx, "a", 0, 0).Err() })
			return err
		}, "a")
		if !errors.Is(err, goredis.TxFailedErr) {
			t.Errorf("a watched key changed: %v", err)
		}
		if err := client.Do(ctx, "NO-SUCH", "a").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command 'NO-SUCH', with args") {
			t.Errorf("an unknown command: %v", err)
		}
	})
}

func TestGoRedisSubscribes(t *testing.T) {
	eachProtocol(t, func(t *testing.T, _ *wired, client *goredis.Client) {
		ctx := t.Context()
		ears := client.PSubscribe(ctx, "news.*")
		defer ears.Close()
		if _, err := ears.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Publish(ctx, "news.today", "rain").Result(); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		m, err := ears.ReceiveMessage(ctx)
		if err != nil || m.Channel != "news.today" || m.Payload != "rain" || m.Pattern != "news.*" {
			t.Errorf("%v %v", m, err)
		}
	})
}
