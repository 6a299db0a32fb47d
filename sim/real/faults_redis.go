package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/fault"
)

func injectRedisOutage(inj *injection) {
	inj.begin()
	inj.down()
	inj.redis.halt(inj.ctx)
	inj.last()
	inj.back(kept)
}

// injectRedisWipe kills Redis and restarts it empty after For. The workload then restores the sessions.
func injectRedisWipe(inj *injection) {
	inj.begin()
	inj.down()
	inj.redis.halt(inj.ctx)
	inj.failed(inj.redis.erase())
	inj.last()
	inj.back(empty)
}

func injectRedisFlush(inj *injection) {
	inj.begin()
	inj.failed(inj.redis.own().FlushAll(inj.ctx).Err())
	inj.failed(inj.work.restore(inj.ctx))
}

func injectRedisFreeze(inj *injection) {
	inj.begin()
	inj.down()
	programs := inj.redis.programs()
	for _, p := range programs {
		inj.failed(p.Freeze())
	}
	inj.last()
	for _, p := range programs {
		inj.failed(p.Thaw())
	}
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

func injectRedisSlow(inj *injection) {
	inj.begin()
	inj.down()
	client := inj.redis.own().WithTimeout(time.Duration(inj.Ms)*time.Millisecond + time.Minute)
	inj.failed(client.Eval(inj.ctx, slowScript, nil, strconv.FormatInt(inj.Ms, 10)).Err())
	inj.answers()
}

// injectRedisLoading restarts Redis so that loading its data takes about Ms, in which it replies LOADING.
func injectRedisLoading(inj *injection) {
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

func injectScriptFlush(inj *injection) {
	inj.begin()
	inj.failed(inj.redis.own().ScriptFlush(inj.ctx).Err())
}

func injectClientKill(inj *injection) {
	inj.begin()
	for _, kind := range []string{"normal", "pubsub"} {
		inj.failed(inj.redis.own().ClientKillByFilter(inj.ctx, "TYPE", kind, "SKIPME", "yes").Err())
	}
}

func injectBeatStale(inj *injection, _ *slot, n *node) {
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

func injectKeyDelete(inj *injection) {
	if inj.picked() {
		inj.begin()
		inj.failed(inj.redis.own().Del(inj.ctx, inj.system.prefix+inj.session).Err())
	}
}

func injectRefuse(inj *injection) {
	if inj.Kind == fault.RedisMisconf {
		if err := failToSave(inj.ctx, inj.redis); err != nil {
			inj.skip(fmt.Sprintf("its data can be saved: %v", err))
			return
		}
	}
	begin, end := refusing(inj.Fault, inj.system)
	inj.begin()
	inj.down()
	inj.refusals.begin()
	defer inj.refusals.end()
	inj.failed(inj.redis.own().Do(inj.ctx, begin...).Err())
	inj.last()
	// An interrupted run ends the fault too, because nodes release their leases.
	if m := inj.hit; inj.Kind == fault.RedisReadOnly && m != nil && m != inj.redis.replicated.present() {
		inj.failed(m.followNow(context.WithoutCancel(inj.ctx), inj.redis.replicated.present()))
	} else {
		inj.failed(inj.redis.own().Do(context.WithoutCancel(inj.ctx), end...).Err())
	}
	inj.answers()
}

func refusing(f fault.Fault, s *system) (begin, end []any) {
	set := func(name string, value any) []any { return []any{"CONFIG", "SET", name, value} }
	user := func(rules ...any) []any { return append([]any{"ACL", "SETUSER", "default"}, rules...) } // nodes are the default user
	prefix := cmp.Or(s.lease, s.prefix)
	switch f.Kind {
	case fault.RedisReadOnly:
		// A replica of a missing server refuses writes. When it becomes a master again, it drops its own replicas. The stream then
		// reconnects and takes a snapshot of the grants that it missed.
		return []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}
	case fault.RedisMemory:
		return set("maxmemory", "1"), set("maxmemory", "0")
	case fault.RedisNoReplicas:
		return set("min-replicas-to-write", replicasNever), set("min-replicas-to-write", 0)
	case fault.RedisMisconf: // after a failed save (failToSave), Redis refuses writes while it has a save schedule
		return set("save", saveSeldom), set("save", "")
	}
	given := user("+@all", "allkeys")
	switch f.Deny {
	case fault.DenyFences:
		if s.tagged {
			return user(allButEnd(":fence")...), given
		}
		return user(allBut("{" + prefix)...), given
	case fault.DenyLeases:
		return user(allBut(prefix)...), given
	}
	return user("-set"), given
}

const (
	replicasNever = 1000         // more than any Redis of a run has, including the stream
	saveSeldom    = "31536000 1" // once a year
)

// allBut returns ACL rules that allow all keys without the prefix. A rule can only allow keys, so the rules list those that differ from
// the prefix at the first byte, at the second, and so on, and the shorter keys.
func allBut(prefix string) []any {
	rules := []any{"resetkeys"}
	for i := range prefix {
		rules = append(rules, "~"+prefix[:i]+"[^"+prefix[i:i+1]+"]*")
		if i > 0 {
			rules = append(rules, "~"+prefix[:i])
		}
	}
	return rules
}

func allButEnd(end string) []any {
	rules := []any{"resetkeys"}
	for i := range end {
		rest := end[len(end)-i:]
		rules = append(rules, "~*[^"+end[len(end)-i-1:len(end)-i]+"]"+rest)
		if i > 0 {
			rules = append(rules, "~"+rest)
		}
	}
	return rules
}

// failToSave makes a save of Redis fail: a folder blocks the path. It removes the folder afterwards.
func failToSave(ctx context.Context, r *Redis) (err error) {
	file := filepath.Join(r.server.dir, "dump.rdb")
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := r.own()
	started := false
	return redisfixture.Await(ctx, func(ctx context.Context) bool {
		if !started { // refused while Redis prepares the snapshot for the stream
			started = client.BgSave(ctx).Err() == nil
		}
		f := infoFields(client.Info(ctx, "persistence").Val())
		return started && f["rdb_bgsave_in_progress"] == "0" && f["rdb_last_bgsave_status"] == "err"
	})
}
