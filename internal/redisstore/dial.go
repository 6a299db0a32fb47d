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

// unbroken keeps go-redis from counting failed dials. After one failure per pool connection, go-redis dials only once a second and
// returns the last error in between. Owners would then notice a recovered Redis up to a second late. Only the core decides when to retry.
//
// A failed dial therefore yields a connection that fails with the dial's error. A subscription drops messages longer than any notice.
type unbroken struct{}

// hears marks the context of a subscription, whose connection ends with it. Otherwise closing a subscription would block on a server that
// never answers, because go-redis holds its lock while it dials. The value, an *atomic.Bool, records that the subscription has dialed.
type hears struct{}

// errHeardOnce keeps go-redis from redialing a failed subscription at once. Listen subscribes again after a pause.
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
			return undialed{fmt.Errorf("no connection: %w", err)}, nil // the client unwraps the outermost error
		}
		if hears {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			return redisclient.Bounded(conn, noticeMax), nil
		}
		return conn, nil
	}
}

// ProcessHook ends a connection if Redis answers its first command with "max number of clients". go-redis would report a broken pipe.
func (unbroken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "hello" && redis.HasErrorPrefix(err, "max number of clients") {
			err = fmt.Errorf("no connection: %w", &net.OpError{Op: "dial", Err: errors.New(err.Error())}) // unwrapped as above
			cmd.SetErr(err)
		}
		return err
	}
}

func (unbroken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// within dials for no longer than ctx. The dialer may take longer, as go-redis' does with TLS. within then closes the late connection.
func (dial dialer) within(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Err() != nil {
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

type undialed struct{ err error }

func (u undialed) Read([]byte) (int, error)       { return 0, u.err }
func (u undialed) Write([]byte) (int, error)      { return 0, u.err }
func (undialed) Close() error                     { return nil }
func (undialed) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (undialed) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (undialed) SetDeadline(time.Time) error      { return nil }
func (undialed) SetReadDeadline(time.Time) error  { return nil }
func (undialed) SetWriteDeadline(time.Time) error { return nil }
