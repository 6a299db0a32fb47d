package core

import (
	"slices"
	"strconv"
	"testing"
	"time"
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
	before := c.members.Len()
	if before != 2 {
		t.Fatalf("%d instances are known, want a and b", before)
	}
	for n := range 2000 {
		from := "stranger" + strconv.Itoa(n)
		for kind, peer := range map[NoticeKind]string{
			NoticeJoined: "", NoticeTaken: "", NoticeFreed: from, NoticeAsked: "a", NoticeLeft: "",
		} {
			s.step(Event{Kind: EvNotice, Notice: Notice{Kind: kind, From: from, IDs: []string{"s1"}, Peers: []string{peer}}})
		}
	}
	if c.members.Len() != before {
		t.Errorf("%d instances are known, want %d", c.members.Len(), before)
	}
}

// looksWhole are the looks that show d.
const looksWhole = 2

// talkedTo is instance a of a fleet with b, c and d, which own a session each. After its second look d is gone, and nobody owns s1.
type talkedTo struct {
	c      *Core
	now    Now
	under  []Op // to be answered
	looks  int  // answered
	n      int  // milliseconds
	taking bool // s1 is asked for
}

func (x *talkedTo) step(ev Event) {
	ev.Now = x.now
	for _, op := range x.c.Step(ev).Ops {
		op.Items = slices.Clone(op.Items)
		x.under = append(x.under, op)
		x.taking = x.taking || op.Kind == OpAcquire && op.Items[0].ID == "s1"
	}
}

// next is a millisecond later. What is under way is answered every fifth.
func (x *talkedTo) next() {
	x.now.Mono += Time(time.Millisecond)
	x.now.Wall += int64(time.Millisecond)
	var under []Op
	if x.n++; x.n%5 == 0 {
		under, x.under = x.under, nil
	}
	x.step(Event{Kind: EvTick})
	for _, op := range under {
		a := Answer{Seq: op.Seq, Epoch: "r1"}
		if op.Kind == OpLook {
			a.Look = &Look{
				Sessions: NewSessions([]string{"s1", "s2", "s3"}), Owners: []string{"", "b", "c"},
				Nodes: []Seen{{ID: "a", PTTL: 1e10}, {ID: "b", PTTL: 1e10}, {ID: "c", PTTL: 1e10}},
			}
			if x.looks++; x.looks <= looksWhole {
				a.Look.Owners[0] = "d"
				a.Look.Nodes = append(a.Look.Nodes, Seen{ID: "d", PTTL: 1e8})
			}
		}
		for range op.Items {
			r := Result{Outcome: OutFree}
			if x.looks <= looksWhole {
				r = Result{Outcome: OutHeld, Owner: "d", PTTL: int64(time.Second)}
			}
			a.Results = append(a.Results, r)
		}
		x.step(Event{Kind: EvAnswer, Answer: a})
	}
}

// Whoever may publish, and write no key, does not keep what is free from being taken, whatever he says and whenever: while looks are
// under way, between them, or both.
func TestStrangersDoNotKeepWhatIsFree(t *testing.T) {
	within := Time(20 * time.Second) // two intervals
	taken := func(n int) Notice {
		return Notice{Kind: NoticeTaken, From: []string{"b", "c"}[n%2], IDs: []string{"s1"}}
	}
	ghost := func(int) Notice {
		return Notice{Kind: NoticeFreed, From: "b", IDs: []string{"s1"}, Peers: []string{"ghost"}}
	}
	for name, row := range map[string]struct {
		says func(n int) Notice
		when func(looks bool) bool
	}{
		"taken, always":          {taken, func(bool) bool { return true }},
		"taken, during looks":    {taken, func(looks bool) bool { return looks }},
		"taken, between looks":   {taken, func(looks bool) bool { return !looks }},
		"freed to an heir":       {ghost, func(bool) bool { return true }},
		"freed and taken by all": {func(n int) Notice { return []func(int) Notice{taken, ghost}[n/2%2](n) }, func(bool) bool { return true }},
	} {
		x := &talkedTo{c: New(Config{Instance: "a", Place: true}), now: Now{Mono: 1, Wall: 1}}
		x.step(Event{Kind: EvStart})
		for n := 0; !x.taking && x.now.Mono < within; n++ {
			if x.looks >= looksWhole && row.when(x.c.table.UnderWay() != 0) {
				x.step(Event{Kind: EvNotice, Notice: row.says(n)})
			}
			x.next()
		}
		if !x.taking {
			t.Errorf("%s: what nobody owns is not asked for within %v, in %d looks", name, time.Duration(within), x.looks)
		}
	}
}
