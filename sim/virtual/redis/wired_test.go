package redis

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// wired is a model that clients reach by connections in memory. Its time passes with commands.
type wired struct {
	mu    sync.Mutex
	redis *Server
	t     int64
}

func newWired(r *Server) *wired {
	r.Clock.Wall = epochNs
	return &wired{redis: r, t: 1}
}

func guestServer() *Server {
	return New(Config{
		Options: redisstore.Options{Quarantine: time.Second}, Wrote: deaf, Publish: func(core.Notice) {}, Lua: true, Guests: true,
	}, nil)
}

func (w *wired) client(t *testing.T, protocol int) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Protocol: protocol, Dialer: w.dial, ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dial is a Dialer of go-redis.
func (w *wired) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	out := &outbox{more: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.redis.Connect(out.add)
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
		w.do(func() {
			commands, last := f.Commands(p[:n])
			for _, args := range commands {
				w.execute(f, args, out)
			}
			out.add(last)
		})
	}
	w.do(f.Close)
	out.end()
}

// do runs f while no command runs.
func (w *wired) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
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
func (w *wired) advance(d time.Duration) { w.do(func() { w.t += int64(d) }) }

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
