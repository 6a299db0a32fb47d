package core

import (
	"strconv"
	"testing"

	"github.com/leasestorm/leasestorm/internal/pause"
)

// askedAfter is how long after n leases were released to another instance, which takes none, a third asks for the last of them.
func askedAfter(t *testing.T, n int) Time {
	t.Helper()
	ids, owners := make([]string, n), make([]string, n)
	for i := range ids {
		ids[i], owners[i] = "s"+strconv.Itoa(i), "b"
	}
	sessions := NewSessions(ids)
	s := &story{epoch: "r1", core: New(Config{Instance: "a", ReadAll: true, Place: true}), now: Now{Mono: 1, Wall: 1}}
	s.step(Event{Kind: EvStart})
	nodes := []Seen{{ID: "a", PTTL: 1e10}, {ID: "b", PTTL: 1e10}, {ID: "c", PTTL: 1e10}}
	for seq, look := range []*Look{nil, nil, {Sessions: sessions, Owners: owners, Nodes: nodes}} {
		s.sleep(1)
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

// The more leases change hands the longer they are left to their heirs: were all asked for by all after the time of a few, Redis would
// serve nothing else, and the heirs too late (G14).
func TestManyAreLeftToHeirsForLonger(t *testing.T) {
	grace := Time(60 * Millisecond)
	if few := askedAfter(t, 10); few < grace || few > 4*grace {
		t.Errorf("the last of ten is asked for after %v", few)
	}
	if many := askedAfter(t, 10*pause.HeirMoves); many < 10*grace || many > 14*grace {
		t.Errorf("the last of %d is asked for after %v", 10*pause.HeirMoves, many)
	}
}
