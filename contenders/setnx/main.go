// Command setnx is a lock of a few lines, as many programs have it.
//
// As documented: the shortest pattern of the page of Redis' command SET, with EXPIRE to renew and DEL to release. With care: that page's
// better pattern, a random token that scripts compare, and a deadline counted from before the command is sent. Redis promises only that
// SET NX sets a key once.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/contenders/adapter"
)

var (
	extend = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)
	remove = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
)

var errHeld = errors.New("held")

// lock is the lease.
type lock struct {
	client     *redis.Client
	ttl        time.Duration
	key, token string
}

func main() {
	l := &lock{client: adapter.Redis(adapter.Careful()), ttl: adapter.TTL()}
	adapter.Serve(adapter.Lock{Acquire: l.acquire, Renew: l.renew, Release: l.release})
}

func (l *lock) acquire(ctx context.Context, key string) adapter.Answer {
	l.key, l.token = key, rand.Text()
	for {
		sent := time.Now()
		ok, err := l.client.SetNX(ctx, key, l.token, l.ttl).Result()
		if ok || err != nil {
			return l.until(sent, adapter.Result(err))
		}
		select {
		case <-ctx.Done():
			return adapter.Result(errHeld)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *lock) until(sent time.Time, a adapter.Answer) adapter.Answer {
	if a.OK && adapter.Careful() {
		a.Until = sent.Add(l.ttl - l.ttl/100).UnixMilli()
	}
	return a
}

func (l *lock) renew() adapter.Answer {
	ctx, sent := context.Background(), time.Now()
	if !adapter.Careful() {
		return adapter.Result(l.client.Expire(ctx, l.key, l.ttl).Err()) // whose key it is, and whether there is one, is not asked
	}
	switch n, err := extend.Run(ctx, l.client, []string{l.key}, l.token, l.ttl.Milliseconds()).Int(); {
	case err != nil:
		return adapter.Answer{Error: err.Error(), Retry: true}
	case n == 0:
		return adapter.Result(errHeld)
	}
	return l.until(sent, adapter.Answer{OK: true})
}

func (l *lock) release() error {
	if adapter.Careful() {
		return remove.Run(context.Background(), l.client, []string{l.key}, l.token).Err()
	}
	return l.client.Del(context.Background(), l.key).Err()
}
