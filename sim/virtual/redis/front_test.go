package redis

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// wired is a model that clients reach by connections in memory.
type wired struct {
	mu    sync.Mutex
	redis *Server
	t     int64
}

func newWired() *wired {
	return &wired{t: 1, redis: wiredServer()}
}

func wiredServer() *Server {
	r := New(Config{
		Options: redisstore.Options{Quarantine: time.Second}, Wrote: deaf, Publish: func(core.Notice) {}, Lua: true, Guests: true,
	}, nil)
	r.Clock.Wall = epochNs
	return r
}

// dial is a Dialer of go-redis.
func (w *wired) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	out := &outbox{more: make(chan struct{}, 1)}
	w.mu.Lock()
	f := w.redis.Connect(out.add)
	w.mu.Unlock()
	go out.write(server)
	go w.serve(f, server, out)
	return client, nil
}

func (w *wired) serve(f *Front, c net.Conn, out *outbox) {
	p := make([]byte, 4096)
	for !f.Closes() {
		n, err := c.Read(p)
		if err != nil {
			break
		}
		w.mu.Lock()
		commands, last := f.Commands(p[:n])
		for _, args := range commands {
			w.execute(f, args, out)
		}
		out.add(last)
		w.mu.Unlock()
	}
	w.mu.Lock()
	f.Close()
	w.mu.Unlock()
	out.end()
}

func (w *wired) execute(f *Front, args []string, out *outbox) {
	w.t += int64(time.Microsecond)
	reply, wait := f.Execute(w.t, args)
	out.add(reply)
	if wait != nil {
		out.add(f.Resume(nil))
	}
}

// advance lets time pass.
func (w *wired) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t += int64(d)
}

// outbox sends frames without making the server wait.
type outbox struct {
	mu    sync.Mutex
	bytes []byte
	over  bool
	more  chan struct{}
}

func (o *outbox) add(p []byte) {
	o.mu.Lock()
	o.bytes = append(o.bytes, p...)
	o.mu.Unlock()
	o.wake()
}

func (o *outbox) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.more <- struct{}{}:
	default:
	}
}

func (o *outbox) write(c net.Conn) {
	defer c.Close()
	for range o.more {
		o.mu.Lock()
		p, over := o.bytes, o.over
		o.bytes = nil
		o.mu.Unlock()
		if _, err := c.Write(p); err != nil || over {
			return
		}
	}
}

func eachProtocol(t *testing.T, f func(t *testing.T, w *wired, client *goredis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run("RESP"+number(int64(protocol)), func(t *testing.T) {
			w := newWired()
			client := goredis.NewClient(&goredis.Options{Protocol: protocol, Dialer: w.dial, ContextTimeoutEnabled: true, MaxRetries: -1})
			defer client.Close()
			f(t, w, client)
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
