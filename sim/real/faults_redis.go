package real

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// alone takes Redis for this fault; another that has it is not disturbed.
func (s *strike) alone() bool {
	ctx, cancel := context.WithTimeout(s.ctx, turnWithin)
	defer cancel()
	if !s.redis.take(ctx.Done()) {
		s.skip("Redis is under another fault")
		return false
	}
	return true
}

// down and up record that Redis stops answering, and answers again.
func (s *strike) down() { s.record(history.Event{Kind: history.RedisDown, Reason: string(s.Kind)}) }

func (s *strike) up(remembers string) {
	s.record(history.Event{Kind: history.RedisUp, Reason: remembers})
}

const (
	kept  = "kept"
	empty = "empty"
)

// redisOutage kills Redis; it is back, with its data, after For.
func (s *strike) redisOutage() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	s.down()
	s.redis.halt(s.ctx)
	s.last()
	s.back(kept)
}

// redisWipe kills Redis; it is back, empty, after For, and then its owner puts the sessions back.
func (s *strike) redisWipe() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	s.down()
	s.redis.halt(s.ctx)
	s.failed(s.redis.erase())
	s.last()
	s.back(empty)
}

// back starts Redis again and records that it answers.
func (s *strike) back(remembers string, args ...string) {
	// An interrupted run needs its Redis too: to count, and to let nodes release.
	if err := s.redis.resume(context.WithoutCancel(s.ctx), args...); err != nil {
		s.failed(err)
		s.end()
		return
	}
	s.up(remembers)
	if remembers == empty {
		s.failed(s.work.restore(s.ctx))
	} else {
		s.failed(s.work.repair(s.ctx))
	}
	s.end()
}

// answers ends a fault that Redis went through without losing anything.
func (s *strike) answers() {
	s.up(kept)
	s.failed(s.work.repair(s.ctx))
	s.end()
}

func (s *strike) redisFlush() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	s.failed(s.redis.client.Load().FlushAll(s.ctx).Err())
	s.failed(s.work.restore(s.ctx))
}

func (s *strike) redisFreeze() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	s.down()
	s.failed(s.redis.server.proc.freeze())
	s.last()
	s.failed(s.redis.server.proc.thaw())
	s.answers()
}

// slowScript computes for a given time and touches nothing.
const slowScript = `local till = os.clock() + tonumber(ARGV[1]) / 1000
while os.clock() < till do end
return 1`

func (s *strike) redisSlow() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	s.down()
	client := s.redis.client.Load().WithTimeout(time.Duration(s.Ms)*time.Millisecond + time.Minute)
	s.failed(client.Eval(s.ctx, slowScript, nil, strconv.FormatInt(s.Ms, 10)).Err())
	s.answers()
}

// redisLoading restarts Redis with its data so that it takes about Ms to load it, and answers LOADING meanwhile.
func (s *strike) redisLoading() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	keys, err := s.redis.compact(s.ctx)
	if err != nil {
		s.skip(fmt.Sprintf("its data cannot be compacted: %v", err))
		return
	}
	s.begin()
	s.down()
	s.redis.halt(s.ctx)
	s.back(kept, "--key-load-delay", msFor(s.Ms, keys), "--loading-process-events-interval-bytes", "1024")
}

func (s *strike) scriptFlush() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	s.failed(s.redis.client.Load().ScriptFlush(s.ctx).Err())
}

func (s *strike) clientKill() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	s.begin()
	for _, kind := range []string{"normal", "pubsub"} {
		s.failed(s.redis.client.Load().ClientKillByFilter(s.ctx, "TYPE", kind, "SKIPME", "yes").Err())
	}
}

// beatStale keeps the heartbeat of an instance that lives at a time long past, whatever the instance writes.
func (s *strike) beatStale() {
	_, n := s.living()
	if n == nil {
		return
	}
	s.begin()
	old := time.Now().Add(-2 * (s.cfg.TTL + beatGrace)).UnixMilli()
	until := time.NewTimer(s.For)
	defer until.Stop()
	for lasts := true; lasts; {
		if err := s.redis.client.Load().Set(s.ctx, s.system.beats+n.instanceID(), old, s.cfg.TTL+beatGrace).Err(); err != nil {
			s.failed(err)
			break
		}
		select {
		case <-until.C:
			lasts = false
		case <-s.storm.Done():
			lasts = false
		case <-time.After(beatStaleEvery):
		}
	}
	s.end()
}

const (
	beatGrace      = 5 * time.Second       // how much longer than the leader key a heartbeat lives
	beatStaleEvery = 20 * time.Millisecond // so that what the instance writes is seen for no longer
)

// keyDelete removes a lease as a foreign hand would.
func (s *strike) keyDelete() {
	if !s.alone() {
		return
	}
	defer s.redis.give()
	if s.picked() {
		s.begin()
		s.failed(s.redis.client.Load().Del(s.ctx, s.system.prefix+s.session).Err())
	}
}
