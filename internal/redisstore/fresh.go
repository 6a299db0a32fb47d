package redisstore

import (
	"context"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
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

func (s *Store) mayBeNew(ctx context.Context) bool {
	f := s.fresh
	if !f.possible || f.known.Load() {
		return false
	}
	if !f.assumed && !f.local.Load() {
		_ = s.client.Ping(ctx).Err() // dials
	}
	return f.assumed || f.local.Load() && !f.remote.Load()
}

// AsNew returns c for a caller that knows no epoch and accepts a new Redis if all its signs agree.
func (c Call) AsNew() Call {
	if us, ok := c.Args[1].(int64); ok {
		c.Args[1] = newEpoch(us, optionNew)
	}
	return c
}

// Begin reads the epoch, and begins one if there is none. It must run before any other script, because an executed script is a sign
// against a new Redis. If Begin finds no epoch and the new one has a quarantine, it returns the reason, otherwise "".
func (s *Store) Begin(ctx context.Context) (why string) {
	before, err := s.epoch(ctx)
	if err != nil {
		return "" // the following operations report it
	}
	a := s.Do(ctx, &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone || a.Quarantine == 0 {
		return ""
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	noted, _ := s.client.HGet(ctx, s.wire.opt.groupKey(), "doubt").Result()
	if why, ok := strings.CutPrefix(noted, a.Epoch+" "); ok {
		return why
	}
	if before == "" {
		return "it is not at a loopback address"
	}
	return ""
}
