package core

import (
	"strconv"
	"testing"
)

// Whoever may publish can name instances without end: only those that something in Redis has shown are remembered.
func TestStrangersAreNotRemembered(t *testing.T) {
	s := &story{epoch: "r1", core: New(Config{Instance: "a", Place: true}), now: Now{Mono: 1, Wall: 1}}
	s.step(Event{Kind: EvStart})
	for seq, look := range []*Look{nil, nil, {
		Sessions: NewSessions([]string{"s1", "s2"}), Owners: []string{"b", "b"}, Nodes: []Seen{{ID: "a", PTTL: 1e10}, {ID: "b", PTTL: 1e10}},
	}} {
		s.sleep(1)
		s.step(Event{Kind: EvAnswer, Answer: Answer{Seq: uint64(seq + 1), Epoch: s.epoch, Look: look}})
	}
	c := s.core
	before := len(c.nodes)
	if before != 2 {
		t.Fatalf("%d instances are known, want a and b", before)
	}
	for n := range 2 * asksMax {
		from := "stranger" + strconv.Itoa(n)
		for kind, peer := range map[NoticeKind]string{
			NoticeJoined: "", NoticeTaken: "", NoticeFreed: from, NoticeAsked: "a", NoticeLeft: "",
		} {
			s.step(Event{Kind: EvNotice, Notice: Notice{Kind: kind, From: from, IDs: []string{"s1"}, Peers: []string{peer}}})
		}
	}
	if len(c.nodes) != before || len(c.fleet.asks) > asksMax {
		t.Errorf("%d instances are known and %d asks kept, want %d and at most %d", len(c.nodes), len(c.fleet.asks), before, asksMax)
	}
}
