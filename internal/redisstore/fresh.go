package redisstore

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// fresh decides whether a script may treat a Redis without an epoch as new (doubt.lua). A new Redis grants leases at once.
type fresh struct {
	possible bool // there is only one server, which copies no other server's data
	assumed  bool

	local, remote atomic.Bool // whether connections led to this machine, to another
	known         atomic.Bool // an epoch has existed, so instances may still believe in its leases
}

func newFresh(client redis.UniversalClient, opt *Options) *fresh {
	c, single := client.(*redis.Client)
	if !single || opt.Replicas > 0 || c.Options().Addr == failoverAddr {
		return &fresh{}
	}
	o := c.Options()
	host, _, err := net.SplitHostPort(o.Addr)
	local := o.Network == "unix" || err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
	return &fresh{possible: local || opt.AssumeNew, assumed: opt.AssumeNew}
}

// DialHook records a connection's actual address, because a custom dialer may ignore the given one.
func (f *fresh) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			at := conn.RemoteAddr()
			ip, tcp := at.(*net.TCPAddr)
			if _, unix := at.(*net.UnixAddr); unix || tcp && ip.IP.IsLoopback() {
				f.local.Store(true)
			} else {
				f.remote.Store(true)
			}
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (*fresh) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*fresh) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// mayBeNew reports whether the Redis may be new. dial makes a connection.
func (f *fresh) mayBeNew(dial func()) bool {
	if !f.possible || f.known.Load() {
		return false
	}
	if !f.assumed && !f.local.Load() {
		dial()
	}
	return f.assumed || f.local.Load() && !f.remote.Load()
}
