package core

import (
	"strconv"
	"testing"
)

// askedAfter is how long after ten leases were released to another instance, which takes none, a third asks for the last of them, where
// Redis' answers take this long.
func askedAfter(t *testing.T, answer Time) Time {
	t.Helper()
	const n = 10
	ids, owners := make([]string, n), make([]string, n)
	for i := range ids {
		ids[i], owners[i] = "s"+strconv.Itoa(i), "b"
	}
	sessions := NewSessions(ids)
	s := &story{epoch: "r1", core: New(Config{Instance: "a", ReadAll: true, Place: true}), now: Now{Mono: 1, Wall: 1}}
	s.step(Event{Kind: EvStart})
	nodes := []Seen{{ID: "a", PTTL: 1e10}, {ID: "b", PTTL: 1e10}, {ID: "c", PTTL: 1e10}}
	for seq, look := range []*Look{nil, nil, {Sessions: sessions, Owners: owners, Nodes: nodes}} {
		s.sleep(answer)
		s.step(Event{Kind: EvAnswer, Answer: Answer{Seq: uint64(seq + 1), Epoch: s.epoch, Look: look}})
	}
	from := s.now.Mono
	for _, id := range sessions.IDs {
		s.step(Event{Kind: EvNotice, Notice: Notice{Kind: NoticeFreed, From: "b", IDs: []string{id}, Peers: []string{"c"}}})
	}
	last := s.core.entries.leases[sessions.IDs[n-1]]
	for last.Phase() == idle && s.core.Next() != 0 {
		s.sleep(s.core.Next() - s.now.Mono)
		s.step(Event{Kind: EvTick})
	}
	if last.Phase() != acquiring {
		t.Fatalf("of %d leases the last is never asked for", n)
	}
	return s.now.Mono - from
}

// If Redis is slow, leases are left to their heirs for longer: otherwise all would ask for all, and delay the heirs further (G14).
func TestASlowRedisLeavesHeirsMoreTime(t *testing.T) {
	grace := Time(60 * Millisecond)
	if fast := askedAfter(t, 1); fast < grace || fast > 4*grace {
		t.Errorf("the last is asked for after %v", fast)
	}
	if slow := askedAfter(t, 5*grace); slow < 10*grace || slow > 20*grace {
		t.Errorf("with answers after %v, the last is asked for after %v", 5*grace, slow)
	}
}
