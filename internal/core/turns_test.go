package core

import (
	"strconv"
	"testing"
)

// shared is instance a, which knows that n sessions are shared by it and b, c and d.
func shared(n int) (*story, []string) {
	s := &story{epoch: "r1", core: New(Config{Instance: "a", ReadAll: true, Place: true}), now: Now{Mono: 1, Wall: 1}}
	s.step(Event{Kind: EvStart})
	names := []string{"b", "c", "d"}
	ids, owners := make([]string, n), make([]string, n)
	for i := range ids {
		ids[i], owners[i] = "s"+strconv.Itoa(i), names[i%len(names)]
	}
	sessions, nodes := NewSessions(ids), []Seen{{ID: "a", PTTL: 1e10}}
	for _, id := range names {
		nodes = append(nodes, Seen{ID: id, PTTL: 1e10})
	}
	for seq, look := range []*Look{nil, nil, {Sessions: sessions, Owners: owners, Nodes: nodes}} {
		s.sleep(1)
		s.step(Event{Kind: EvAnswer, Answer: Answer{Seq: uint64(seq + 1), Epoch: s.epoch, Look: look}})
	}
	return s, sessions.IDs
}

// A repeated notice of a release does not postpone a turn, whatever heir it names.
func TestATurnIsNotPutOff(t *testing.T) {
	turns := 0
	for _, to := range []string{"", "b"} {
		for k := range 3 {
			s, ids := shared(3)
			free := func(to string) {
				s.step(Event{Kind: EvNotice, Notice: Notice{Kind: NoticeFreed, From: "x", IDs: ids[k : k+1], Peers: []string{to}}})
			}
			free("")
			l, from := s.core.entries.leases[ids[k]], s.now.Mono
			if l.Phase() == idle {
				turns++
			}
			for l.Phase() == idle && s.now.Mono < from+Time(Second) {
				s.sleep(Time(5 * Millisecond))
				free(to)
				s.step(Event{Kind: EvTick})
			}
			if late := s.now.Mono - from; late > Time(int64(s.core.cfg.StaggerMax)*s.core.cfg.Stagger) {
				t.Errorf("released to %q repeatedly, %s is requested after %v", to, l.ID(), late)
			}
		}
	}
	if turns == 0 {
		t.Error("this instance is first in all cases")
	}
}
