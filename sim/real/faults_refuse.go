package real

import (
	"cmp"
	"context"
	"fmt"

	"github.com/leasestorm/leasestorm/sim/fault"
)

func (inj *injection) refuse() {
	if inj.Kind == fault.RedisMisconf {
		if err := inj.redis.failToSave(inj.ctx); err != nil {
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
