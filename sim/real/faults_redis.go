package real

import (
	"fmt"
	"strconv"
	"time"
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
