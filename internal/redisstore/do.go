package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Do executes op at most once and returns its outcome. It blocks no longer than ctx, or than OpTimeout if ctx has no deadline. It accepts
// every op except OpLook (see Look), and neither keeps nor changes op.
//
// FailUnknown means that Redis did not answer: it may have executed the op, or may still do so. FailUnsent and FailRefused mean that
// Redis executed nothing. Answer.Results always has one element per item.
func (s *Store) Do(ctx context.Context, op *core.Op) core.Answer {
	if err := s.wire.Validate(op); err != nil {
		return fail(op, core.FailRefused, err.Error())
	}
	if op.Kind == core.OpAsk {
		return s.ask(ctx, op)
	}
	if op.Confirm > 0 {
		return s.confirmed(ctx, op)
	}
	reply, err := s.run(ctx, s.wire.Call(op))
	if err != nil {
		return s.fail(ctx, op, err)
	}
	return s.wire.Answer(op, reply)
}

// confirmed executes op, waits for acknowledgements of replicas and, if op requests it, reads the epoch again. It uses one pipeline,
// because WAIT covers only the writes of its own connection. It never reports more replicas than acknowledged.
func (s *Store) confirmed(ctx context.Context, op *core.Op) core.Answer {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	server, err := s.server(ctx)
	if err != nil {
		return s.fail(ctx, op, err)
	}
	done, acked, after := s.pipeline(ctx, server, op, (*redis.Script).EvalSha)
	if redis.HasErrorPrefix(done.Err(), "NOSCRIPT") { // Redis executed nothing
		done, acked, after = s.pipeline(ctx, server, op, (*redis.Script).Eval)
	}
	reply, err := done.Slice()
	if err != nil {
		return s.fail(ctx, op, err)
	}
	a := s.wire.Answer(op, reply)
	a.Acked, err = acked.Int64()
	s.deposed(err)
	if Denies(err) {
		a = fail(op, core.FailUncounted, err.Error())
		a.Err = Cause(err)
		return a
	}
	if after != nil {
		if reply, err := after.Slice(); err == nil {
			var probed core.Answer
			if _, err := decodeHead(reply, &probed); err == nil {
				a.After = probed.Epoch
			}
		}
	}
	return a
}

type evaluator func(s *redis.Script, ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

// waitLate is how late Redis may end a WAIT: an idle server checks blocked clients ten times a second.
const waitLate = 120 * time.Millisecond

// Patience returns the timeout of WAIT for an op with that much time left. It reserves time for the answer, so that a missing
// acknowledgement does not look like a silent Redis. It is never 0, because WAIT 0 blocks forever.
func Patience(left time.Duration) time.Duration {
	return max(min(left*9/10, left-waitLate), left/2, time.Millisecond)
}

func (s *Store) pipeline(ctx context.Context, server redis.Cmdable, op *core.Op, eval evaluator) (done, acked, after *redis.Cmd) {
	deadline, _ := ctx.Deadline()
	patience := Patience(time.Until(deadline))
	pipe := server.Pipeline()
	c := s.wire.Call(op)
	done = eval(c.script.Script, ctx, pipe, c.Keys, c.Args...)
	acked = pipe.Do(ctx, "WAIT", op.Confirm, patience.Milliseconds())
	if op.Probes() {
		c = s.wire.Call(&core.Op{Kind: core.OpObserve, Epoch: op.Epoch, Quarantine: op.Quarantine})
		after = eval(c.script.Script, ctx, pipe, c.Keys, c.Args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return done, acked, after
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
	if c, ok := s.client.(*redis.ClusterClient); ok {
		c.ReloadState(ctx) // the slot may have moved, or its master may be gone
	}
	s.deposed(err)
	a := fail(op, kind, text)
	a.Err = Cause(err)
	return a
}
