package real

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

func alone(f func(*injection)) func(*injection) {
	return func(inj *injection) {
		if inj.take() {
			defer inj.done()
			f(inj)
		}
	}
}

// take locks Redis, and the master of several servers, for this fault. It skips the fault and returns false if another one has the lock.
func (inj *injection) take() bool {
	ctx, cancel := context.WithTimeout(inj.ctx, turnWithin)
	defer cancel()
	if !inj.redis.take(ctx.Done()) {
		inj.skip("Redis is under another fault")
		return false
	}
	if p := inj.redis.replicated; p != nil {
		m := p.present()
		if !m.hand.TryLock() {
			inj.redis.give()
			inj.skip("the master is under another fault")
			return false
		}
		inj.hit, inj.redis.server = m, m.server
	}
	return true
}

func (inj *injection) done() {
	if inj.hit != nil {
		inj.hit.hand.Unlock()
	}
	inj.redis.give()
}

func (inj *injection) down() {
	inj.record(history.Event{Kind: history.RedisDown, Reason: string(inj.Kind)})
}

func (inj *injection) up(remembers string) {
	inj.record(history.Event{Kind: history.RedisUp, Reason: remembers})
}

const (
	kept  = "kept"
	empty = "empty"
)

func (inj *injection) redisOutage() {
	inj.begin()
	inj.down()
	inj.redis.halt(inj.ctx)
	inj.last()
	inj.back(kept)
}

// redisWipe kills Redis and restarts it empty after For. The workload then restores the sessions.
func (inj *injection) redisWipe() {
	inj.begin()
	inj.down()
	inj.redis.halt(inj.ctx)
	inj.failed(inj.redis.erase())
	inj.last()
	inj.back(empty)
}

func (inj *injection) back(remembers string, args ...string) {
	// An interrupted run needs its Redis too: nodes release leases, and the run reads its counters.
	if err := inj.redis.resume(context.WithoutCancel(inj.ctx), args...); err != nil {
		inj.failed(err)
		inj.redis.lose(fmt.Errorf("%w: it was not started again: %w", ErrGone, err)) // from now on no fault explains the outage
		inj.end()
		return
	}
	inj.up(remembers)
	if remembers == empty {
		inj.failed(inj.work.restore(inj.ctx))
	} else {
		inj.failed(inj.work.repair(inj.ctx))
	}
	inj.end()
}

// answers ends a fault that lost no data.
func (inj *injection) answers() {
	inj.up(kept)
	inj.failed(inj.work.repair(inj.ctx))
	inj.end()
}

func (inj *injection) redisFlush() {
	inj.begin()
	inj.failed(inj.redis.own().FlushAll(inj.ctx).Err())
	inj.failed(inj.work.restore(inj.ctx))
}

func (inj *injection) redisFreeze() {
	inj.begin()
	inj.down()
	inj.failed(inj.redis.server.proc.Freeze())
	inj.last()
	inj.failed(inj.redis.server.proc.Thaw())
	inj.answers()
}

// slowScript computes for ARGV[1] ms and touches no key. Debian's Redis, built with the system's Lua, has no os, so the script falls back
// to TIME. Its loop ends even if TIME does not advance during a script.
const slowScript = `local ms = tonumber(ARGV[1])
if pcall(function() return os.clock() end) then
  local till = os.clock() + ms / 1000
  while os.clock() < till do end
  return 1
end
local from = redis.call('TIME')
for _ = 1, ms * 2000 do
  local now = redis.call('TIME')
  if (now[1] - from[1]) * 1000 + (now[2] - from[2]) / 1000 >= ms then break end
end
return 1`

func (inj *injection) redisSlow() {
	inj.begin()
	inj.down()
	client := inj.redis.own().WithTimeout(time.Duration(inj.Ms)*time.Millisecond + time.Minute)
	inj.failed(client.Eval(inj.ctx, slowScript, nil, strconv.FormatInt(inj.Ms, 10)).Err())
	inj.answers()
}

// redisLoading restarts Redis so that loading its data takes about Ms, in which it replies LOADING.
func (inj *injection) redisLoading() {
	keys, err := inj.redis.compact(inj.ctx)
	if err != nil {
		inj.skip(fmt.Sprintf("its data cannot be compacted: %v", err))
		return
	}
	inj.begin()
	inj.down()
	inj.redis.halt(inj.ctx)
	inj.back(kept, "--key-load-delay", msFor(inj.Ms, keys), "--loading-process-events-interval-bytes", "1024")
}

func (inj *injection) scriptFlush() {
	inj.begin()
	inj.failed(inj.redis.own().ScriptFlush(inj.ctx).Err())
}

func (inj *injection) clientKill() {
	inj.begin()
	for _, kind := range []string{"normal", "pubsub"} {
		inj.failed(inj.redis.own().ClientKillByFilter(inj.ctx, "TYPE", kind, "SKIPME", "yes").Err())
	}
}

func (inj *injection) beatStale() {
	_, n := inj.living()
	if n == nil {
		return
	}
	inj.begin()
	old := time.Now().Add(-2 * (inj.cfg.TTL + beatGrace)).UnixMilli()
	until := time.NewTimer(inj.For)
	defer until.Stop()
	for lasts := true; lasts; {
		if err := inj.redis.client.Load().Set(inj.ctx, inj.system.beats+n.instanceID(), old, inj.cfg.TTL+beatGrace).Err(); err != nil {
			inj.failed(err)
			break
		}
		select {
		case <-until.C:
			lasts = false
		case <-inj.storm.Done():
			lasts = false
		case <-time.After(beatStaleEvery):
		}
	}
	inj.end()
}

const (
	beatGrace      = 5 * time.Second       // TTL of a heartbeat beyond that of the leader key
	beatStaleEvery = 20 * time.Millisecond // longest time that the instance's own heartbeat is visible
)

func (inj *injection) keyDelete() {
	if inj.picked() {
		inj.begin()
		inj.failed(inj.redis.own().Del(inj.ctx, inj.system.prefix+inj.session).Err())
	}
}
