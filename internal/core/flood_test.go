package core

import (
	"slices"
	"strconv"
	"testing"

	"github.com/leasestorm/leasestorm/internal/place"
)

// placings counts what is placed.
type placings struct {
	Placer
	sessions int
}

func (p *placings) Place(s *Sessions, instances []uint64, owner []int32) (target, quota []int32) {
	p.sessions += len(s.IDs)
	return p.Placer.Place(s, instances, owner)
}

// shared is instance a, which knows that n sessions are shared by it and b, c and d, and what it has placed since.
func shared(n int) (*story, []string, *placings) {
	p := &placings{}
	s := &story{epoch: "r1", core: New(Config{Instance: "a", ReadAll: true, Place: true, Placement: p}), now: Now{Mono: 1, Wall: 1}}
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
	p.sessions = 0
	return s, sessions.IDs, p
}

// Whoever may publish does not keep an instance busy with what follows from what he says: in one notice or in many, what is placed anew
// for it is bounded, or renewals would be answered in vain meanwhile.
func TestHearsayIsPlacedSoOften(t *testing.T) {
	for _, n := range []int{400, 3000} {
		for name, each := range map[string]int{"one notice": 4000, "notices of one word": 1} {
			s, ids, p := shared(n)
			var said, peers []string
			for k := range 4000 {
				said, peers = append(said, ids[k/2%len(ids)]), append(peers, []string{"b", "c", "d"}[k%3])
				if k%2 == 1 {
					peers[k] = ""
				}
			}
			for from := 0; from < 3; from++ {
				for range 2 { // the second time at the same instant
					for k := 0; k < len(said); k += each {
						s.step(Event{Kind: EvNotice, Notice: Notice{Kind: NoticeFreed, From: "x", IDs: said[k : k+each], Peers: peers[k : k+each]}})
						s.core.Settled() // whose state is shown after each
					}
				}
				if most := (from + 1) * place.PlacedMax; p.sessions == 0 || p.sessions > most {
					t.Errorf("%s, %d sessions: %d were placed, want some and at most %d", name, n, p.sessions, most)
				}
				s.sleep(Time(s.core.cfg.Discovery / 10))
			}
		}
	}
}

// What is free then is taken in its order all the same.
func TestAfterMuchHearsayTurnsCome(t *testing.T) {
	s, ids, _ := shared(3000)
	for k := range 3000 {
		for _, to := range []string{"c", ""} {
			s.step(Event{Kind: EvNotice, Notice: Notice{Kind: NoticeFreed, From: "x", IDs: ids[k : k+1], Peers: []string{to}}})
		}
	}
	s.sleep(Time(s.core.cfg.Stagger * int64(s.core.cfg.StaggerMax)))
	s.step(Event{Kind: EvTick})
	if k := slices.IndexFunc(ids, func(id string) bool { return s.core.entries.leases[id].Phase() != acquiring }); k >= 0 {
		t.Errorf("%s is %s in the last turn", ids[k], s.core.entries.leases[ids[k]].state())
	}
}

// A turn is not put off by whoever tells of the release again, whomever he names.
func TestATurnIsNotPutOff(t *testing.T) {
	turns := 0
	for _, to := range []string{"", "b"} {
		for k := range 3 {
			s, ids, _ := shared(3)
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
				t.Errorf("released to %q again and again, %s is asked for after %v", to, l.ID(), late)
			}
		}
	}
	if turns == 0 {
		t.Error("it is first in all cases")
	}
}
