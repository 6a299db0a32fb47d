package redisstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// talker is a connection that acts before every command but the first.
type talker struct {
	net.Conn
	sent    *atomic.Int32
	between func()
}

func (c *talker) Write(p []byte) (int, error) {
	if c.sent.Add(1) > 1 {
		c.between()
	}
	return c.Conn.Write(p)
}

// An op is one command. If an op read a lease's owner in one command and acted in a second, the lease could have another owner by then.
func TestOpIsOneCommand(t *testing.T) { // G10
	srv := redistest.Start(t)
	var sent atomic.Int32
	const key = "poll:lease:x"
	passesOn := func() { srv.Do("SET", key, "b") }
	c := client(t, redis.Options{Addr: srv.Addr(), Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		return &talker{conn, &sent, passesOn}, err
	}})
	sent.Store(-1000) // each op first runs once undisturbed, so that Redis knows its script
	s, epoch := bootstrapped(t, c, redisstore.Options{})
	for _, again := range []bool{false, true} {
		op := acquire(epoch, "a", "x")
		for _, kind := range []core.OpKind{core.OpAcquire, core.OpAcquire, core.OpRenew, core.OpReassert, core.OpRelease} {
			if again {
				sent.Store(0)
			}
			op.Kind = kind
			a := s.Do(t.Context(), op)
			if a.Failure != core.FailNone {
				t.Fatalf("op %d: %s", kind, a.Text)
			}
			if op.Items[0].Fence = max(op.Items[0].Fence, a.Results[0].Fence); !again || sent.Load() == 1 {
				continue
			}
			t.Errorf("op %d is %d commands; the lease passed on to b before the last, and Redis shows it with %q", kind, sent.Load(),
				srv.Do("GET", key))
		}
	}
}
