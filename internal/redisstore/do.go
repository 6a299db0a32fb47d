package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Do executes op, at most once, and returns what became of it. It never blocks longer than ctx, or than OpTimeout where
// ctx has no deadline. Every op but OpLook (see Look) is possible. Do neither keeps nor changes op.
//
// An attempt that Redis did not answer, for whatever reason, fails with FailUnknown; it may have been executed, and may
// still be. FailUnsent and FailRefused are said only of what certainly was not. Answer.Results always has one element per item.
func (s *Store) Do(ctx context.Context, op *core.Op) core.Answer {
	if err := s.wire.Validate(op); err != nil {
		return fail(op, core.FailRefused, err.Error())
	}
	if op.Kind == core.OpAsk {
		return s.ask(ctx, op)
	}
	reply, err := s.run(ctx, s.wire.Call(op))
	if err != nil {
		return s.fail(ctx, op, err)
	}
	return s.wire.Answer(op, reply)
}

func (s *Store) ask(ctx context.Context, op *core.Op) core.Answer {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	for _, text := range AskTexts(op) {
		if err := s.client.Publish(ctx, s.wire.opt.Channel, text).Err(); err != nil {
			return s.fail(ctx, op, err)
		}
	}
	return core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
}

func (s *Store) fail(ctx context.Context, op *core.Op, err error) core.Answer {
	kind, text := failure(err)
	if c, ok := s.client.(*redis.ClusterClient); ok && kind == core.FailRefused {
		c.ReloadState(ctx) // the slot may have moved
	}
	if c, ok := s.client.(*masterClient); ok && kind == core.FailRefused && strings.Contains(text, "READONLY") {
		c.master.doubt() // it was deposed
	}
	a := fail(op, kind, text)
	a.Err = Cause(err)
	return a
}
