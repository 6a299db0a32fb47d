package redisstore

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/respguard"
)

// unbroken keeps go-redis from counting dials that failed. After as many as its pool has connections, whenever that was, it dials once a
// second only and meanwhile answers with the last error, which a store with one connection meets at once: owners would learn up to a
// second late that Redis is back, or that another server is the master. The core says when to try, and nothing else. So a dial that failed
// gives a connection that fails with the dial's error, and is thrown away by that. A connection that is to hear a channel hands on no
// message that is longer than any notice.
type unbroken struct{}

// hears marks the context of a subscription.
type hears struct{}

func (unbroken) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return undialed{fmt.Errorf("no connection: %w", err)}, nil // the client takes the outermost error off
		}
		if ctx.Value(hears{}) != nil {
			return respguard.Hear(conn, noticeMax), nil
		}
		return conn, nil
	}
}

func (unbroken) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (unbroken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
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
