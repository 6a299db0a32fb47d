package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// conn sends each command once, on the store's own connections.
type conn struct {
	client redis.UniversalClient
	wire   Wire
	fresh  *fresh
}

// Options returns the store's options with every default.
func (s *conn) Options() Options { return s.wire.opt }

// Close closes the store's own connections, not the client given to New. Running operations end at once, without an answer.
func (s *conn) Close() error { return s.client.Close() }

// CheckLease is Wire.CheckLease.
func (s *conn) CheckLease(id string) error { return s.wire.CheckLease(id) }

// run calls a guarded script by its SHA. After NOSCRIPT, which means that Redis executed nothing, it sends the text.
func (s *conn) run(ctx context.Context, c Call) ([]any, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	if s.fresh.mayBeNew(func() { _ = s.client.Ping(ctx).Err() }) {
		c = c.AsNew()
	}
	reply, err := c.script.Run(ctx, s.client, c.Keys, c.Args...).Slice()
	if err == nil {
		s.fresh.known.Store(true)
	}
	return reply, err
}

func (s *conn) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.wire.opt.OpTimeout)
}

// server returns the server of the keys, in a cluster the master of their slot, for commands that have no key or need one connection.
func (s *conn) server(ctx context.Context) (redis.Cmdable, error) {
	if c, ok := s.client.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, s.wire.opt.EpochKey)
	}
	return s.client, nil
}

// deposed makes the master's watcher ask the sentinels if err shows that the server is no longer a master.
func (s *conn) deposed(err error) {
	c, ok := s.client.(*masterClient)
	if ok && err != nil && (strings.Contains(err.Error(), "READONLY") || strings.Contains(err.Error(), "UNBLOCKED")) {
		c.master.doubt()
	}
}
