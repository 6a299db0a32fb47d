package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// batchMax bounds the calls of one batch. Redis runs a batch without a break,
// so batchMax also bounds how long other clients wait.
const batchMax = 32

// batcher combines the script calls that wait for a connection, and sends them
// together as soon as a connection is free. Most of the cost of a single call
// is its write to and read from the connection. A caller with a lane also sends
// the waiting calls, and then passes the lane to the first caller that still
// waits. go-redis' own auto-pipelining is experimental and keeps goroutines
// running.
type batcher struct {
	client  redis.UniversalClient
	timeout time.Duration
	lanes   int // maximum number of batches in flight

	mu      sync.Mutex
	waiting []*scriptCall
	busy    int
}

type scriptCall struct {
	script *redis.Script
	keys   []string
	args   []any
	answer *redis.Cmd
	turn   chan turn // has room for one signal
}

type turn bool

const (
	answered turn = false // another caller has sent the call
	send     turn = true  // the caller has a lane now
)

// call runs a script at most once. If ctx ends before the answer, the script
// may have run, or may run later.
func (b *batcher) call(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	c := &scriptCall{script: script, keys: keys, args: args}
	if !b.enter(c) {
		select {
		case t := <-c.turn:
			if t == answered {
				return c.answer.Result()
			}
			if ctx.Err() != nil {
				b.leave()
				return nil, context.Cause(ctx)
			}
		case <-ctx.Done():
			b.quit(c)
			return nil, context.Cause(ctx)
		}
	}
	batch := b.board(c)
	defer b.leave()
	b.send(ctx, batch)
	for _, other := range batch[1:] {
		other.turn <- answered
	}
	return c.answer.Result()
}

func (b *batcher) enter(c *scriptCall) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy < b.lanes {
		b.busy++
		return true
	}
	c.turn = make(chan turn, 1)
	b.waiting = append(b.waiting, c)
	return false
}

func (b *batcher) board(first *scriptCall) []*scriptCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), batchMax-1)
	batch := append(make([]*scriptCall, 0, 1+n), first)
	batch = append(batch, b.waiting[:n]...)
	b.waiting = slices.Delete(b.waiting, 0, n)
	return batch
}

// leave passes a lane to the next caller, or frees it.
func (b *batcher) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.busy--
		return
	}
	b.waiting[0].turn <- send
	b.waiting = slices.Delete(b.waiting, 0, 1)
}

// quit removes a caller that no longer waits. If the caller has just received a
// lane, quit passes the lane on.
func (b *batcher) quit(c *scriptCall) {
	b.mu.Lock()
	i := slices.Index(b.waiting, c)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	b.mu.Unlock()
	if i >= 0 {
		return
	}
	select {
	case t := <-c.turn:
		if t == send {
			b.leave()
		}
	default: // another caller has sent the call; nobody reads the answer
	}
}

// send runs the calls of a batch on behalf of the first caller. If that
// caller's ctx ends, the other calls still run.
func (b *batcher) send(ctx context.Context, batch []*scriptCall) {
	if len(batch) == 1 {
		c := batch[0]
		c.answer = c.script.Run(ctx, b.client, c.keys, c.args...)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
	defer cancel()
	pipe := b.client.Pipeline()
	for _, c := range batch {
		c.answer = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	for _, c := range batch {
		if redis.HasErrorPrefix(c.answer.Err(), "NOSCRIPT") { // it has not run; Run loads it
			c.answer = c.script.Run(ctx, b.client, c.keys, c.args...)
		}
	}
}
