package store

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// How calls are put together. Redis runs a batch in one go, so batchMax bounds for how long nobody else is served; batchesMax
// is how many are under way at once, so that one is being written while Redis works on another.
const (
	batchMax   = 32
	batchesMax = 4
)

// batcher sends the script calls that callers make at the same time together: most of what a call costs, here and in Redis,
// is its own write and its own read. A call that comes alone is sent at once. (The client's auto-pipelining does the same and
// more, but is declared experimental, and runs goroutines for as long as it exists.)
type batcher struct {
	client  redis.UniversalClient
	timeout time.Duration // of one batch

	mu      sync.Mutex
	waiting []*scriptCall
	running int // batches under way
}

// scriptCall is one call of a script, and its answer once done is closed.
type scriptCall struct {
	ctx    context.Context // of the caller, who may have left
	script *redis.Script
	keys   []string
	args   []any
	answer *redis.Cmd
	done   chan struct{}
}

// call runs a script once at most. Without an answer before ctx ends it may have run, or run later.
func (b *batcher) call(ctx context.Context, script *redis.Script, keys []string, args ...any) (any, error) {
	c := &scriptCall{ctx: ctx, script: script, keys: keys, args: args, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	idle := b.running < batchesMax
	if idle {
		b.running++
	}
	b.mu.Unlock()
	if idle {
		go b.run()
	}
	select {
	case <-c.done:
		return c.answer.Result()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run sends batches until nobody waits.
func (b *batcher) run() {
	var batch []*scriptCall
	for {
		if batch = b.take(batch[:0]); len(batch) == 0 {
			return
		}
		b.send(batch)
		clear(batch)
	}
}

// take returns the calls of the next batch. With none left, the one who asks is done.
func (b *batcher) take(batch []*scriptCall) []*scriptCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for ; n < len(b.waiting) && len(batch) < batchMax; n++ {
		if b.waiting[n].ctx.Err() == nil {
			batch = append(batch, b.waiting[n])
		}
	}
	left := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[left:])
	b.waiting = b.waiting[:left]
	if len(batch) == 0 {
		b.running--
	}
	return batch
}

func (b *batcher) send(batch []*scriptCall) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	pipe := b.client.Pipeline()
	for _, c := range batch {
		c.answer = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	for _, c := range batch {
		if redis.HasErrorPrefix(c.answer.Err(), "NOSCRIPT") { // so it has not run; Redis keeps it from now on
			c.answer = c.script.Eval(ctx, b.client, c.keys, c.args...)
		}
		close(c.done)
	}
}
