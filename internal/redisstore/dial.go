package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// unbroken keeps go-redis from counting dials that failed. After as many as its pool has connections, whenever that was, it dials once a
// second only and meanwhile answers with the last error, which a store with one connection meets at once: owners would learn up to a
// second late that Redis is back, or that another server is the master. The core says when to try, and nothing else. So a dial that failed
// gives a connection that fails with the dial's error, and is thrown away by that. A connection that is to hear a channel hands on no
// message that is longer than any notice.
type unbroken struct{}

// hears marks the context of a subscription, which its connection ends with: go-redis honours deadlines only, and holds its lock while
// a connection is made, so that to close the subscription waits for a server that accepts and says nothing. Its value, an *atomic.Bool,
// says whether it has dialed.
type hears struct{}

// errHeardOnce is what go-redis is told that dials anew, at once, for a subscription whose connection has failed. The next attempt is
// another subscription, and comes after a pause: a Redis without room for one more client would be asked twice each time.
var errHeardOnce = errors.New("a subscription has one connection")

func (unbroken) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		dial := dialer(next)
		dialed, hears := ctx.Value(hears{}).(*atomic.Bool)
		if hears {
			if dialed.Swap(true) {
				return nil, errHeardOnce
			}
			dial = dial.within
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return undialed{fmt.Errorf("no connection: %w", err)}, nil // the client takes the outermost error off
		}
		if hears {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			return redisclient.Bounded(conn, noticeMax), nil
		}
		return conn, nil
	}
}

func (unbroken) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (unbroken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// within dials, and waits no longer than ctx lasts. The dialer may go on for longer, as go-redis' does with TLS: what comes of that is
// closed.
func (dial dialer) within(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Err() != nil { // of a subscription that ends before it has begun
		return nil, ctx.Err()
	}
	type dialed struct {
		conn net.Conn
		err  error
	}
	led := make(chan dialed, 1)
	go func() {
		conn, err := dial(ctx, network, addr)
		led <- dialed{conn, err}
	}()
	select {
	case d := <-led:
		return d.conn, d.err
	case <-ctx.Done():
		go func() {
			if d := <-led; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// undialed is a connection that did not come about.
type undialed struct{ err error }

func (u undialed) Read([]byte) (int, error)       { return 0, u.err }
func (u undialed) Write([]byte) (int, error)      { return 0, u.err }
func (undialed) Close() error                     { return nil }
func (undialed) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (undialed) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (undialed) SetDeadline(time.Time) error      { return nil }
func (undialed) SetReadDeadline(time.Time) error  { return nil }
func (undialed) SetWriteDeadline(time.Time) error { return nil }
