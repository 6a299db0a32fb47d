package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestStories runs the stories of testdata/stories: what one instance is told, and what it does about it, step by step. Each file
// is meant to be read. `go test ./internal/core -run Stories -rewrite` writes the outcomes anew; read the difference
// before you keep it, for the outcome is the assertion.
//
// In a story, an op is answered by its number: "answer 3" followed by one word a result. While one waits with "reads", what
// reads only the epoch is answered as it is sent. "look 3" and "news 3" answer discoveries.
func TestStories(t *testing.T) { // G1, G9, G13, G14
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &story{epoch: "r1"}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			if s.out.Len() == 0 {
				return "nothing\n"
			}
			return s.out.String()
		})
	})
}

type story struct {
	core  *Core
	seen  func(Happening) // told what each step makes of each lease; nil: nobody is
	now   Now
	epoch string
	quar  time.Duration
	group time.Duration
	look  *Sessions
	read  uint64              // the read of the epoch that the last step sent, 0 none
	was   map[string][]string // the states in which the story began, where it began as another
	out   strings.Builder
}

func (s *story) run(t *testing.T, d *datadriven.TestData) {
	arg := func(key, def string) string {
		for _, a := range d.CmdArgs {
			if a.Key == key && len(a.Vals) > 0 {
				return a.Vals[0]
			}
		}
		return def
	}
	has := func(key string) bool {
		return slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == key })
	}
	dur := func(text string) int64 {
		v, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return int64(v)
	}
	num := func(text string) int64 {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return v
	}
	first := func() string { return d.CmdArgs[0].Key }
	if slices.Contains([]string{"answer", "look", "news", "fail"}, d.Cmd) {
		s.sleep(Time(time.Millisecond)) // nothing is answered at once
	}
	switch d.Cmd {
	case "start":
		s.core = New(Config{Instance: arg("instance", "a"), Place: has("place"), NoHeartbeat: !has("place"), ReadAll: !has("news")})
		s.now = Now{Mono: 1, Wall: 1}
		s.step(Event{Kind: EvStart})
	case "redis": // what Redis says of itself in the answers from here on
		s.epoch = arg("epoch", s.epoch)
		s.quar = time.Duration(dur(arg("quarantine", "0s")))
		s.group = time.Duration(dur(arg("group", s.group.String())))
	case "wait":
		end := s.now.Mono + Time(dur(first()))
		for n := s.core.Next(); n != 0 && n <= end; n = s.core.Next() {
			s.sleep(n - s.now.Mono)
			s.step(Event{Kind: EvTick})
			if has("reads") && s.read != 0 {
				s.step(Event{Kind: EvAnswer, Answer: Answer{Seq: s.read, Epoch: s.epoch, Quarantine: int64(s.quar),
					Group: int64(s.group)}})
			}
		}
		s.sleep(end - s.now.Mono)
	case "sleep": // time passes and nothing runs: a freeze
		s.sleep(Time(dur(first())))
		s.step(Event{Kind: EvTick})
	case "step-wall":
		s.now.Wall += dur(first())
		s.step(Event{Kind: EvTick})
	case "as": // what happened in another story comes first
		s.as(t, first())
	case "states":
		s.states()
	case "changed": // since the story that this one began as
		s.changed()
	case "want", "drop", "abandon", "recovered", "renew": // one lease after the other
		kinds := map[string]EventKind{"want": EvWant, "drop": EvDrop, "abandon": EvAbandon, "recovered": EvRecovered, "renew": EvRenew}
		for _, a := range d.CmdArgs {
			if a.Key != "wait" && a.Key != "ttl" {
				s.step(Event{Kind: kinds[d.Cmd], ID: a.Key, Fence: s.fence(a), Wait: has("wait"), TTL: dur(arg("ttl", "0s")),
					Cause: CauseRequested})
			}
		}
	case "subscribed":
		s.step(Event{Kind: EvSubscribed})
	case "doubt":
		s.step(Event{Kind: EvDoubt})
	case "drain":
		s.step(Event{Kind: EvDrain})
	case "notice":
		kinds := map[string]NoticeKind{"taken": NoticeTaken, "freed": NoticeFreed, "joined": NoticeJoined,
			"left": NoticeLeft, "asked": NoticeAsked}
		n := Notice{Kind: kinds[first()], From: arg("from", "b"), Number: num(arg("number", "0"))}
		_, n.Epoch, _ = strings.Cut(s.epoch, " ")
		for _, a := range d.CmdArgs {
			if a.Key == "id" {
				n.IDs = a.Vals
				n.Peers = slices.Repeat([]string{arg("peer", "")}, len(a.Vals))
			}
		}
		s.step(Event{Kind: EvNotice, Notice: n})
	case "fail":
		a := Answer{Seq: uint64(num(first())), Failure: FailUnknown, Text: "connection reset"}
		switch {
		case has("refused"):
			a.Failure = FailRefused
		case has("unsent"):
			a.Failure = FailUnsent
		}
		s.step(Event{Kind: EvAnswer, Answer: a})
	case "answer":
		a := Answer{Seq: uint64(num(first())), Epoch: s.epoch, Quarantine: int64(s.quar), Group: int64(s.group),
			Stale: has("stale"), Acked: num(arg("acked", "0")), After: arg("after", "")}
		for _, line := range strings.Split(d.Input, "\n") {
			if w := strings.Fields(line); len(w) > 0 {
				a.Results = append(a.Results, s.result(t, d, w, num, dur))
			}
		}
		s.step(Event{Kind: EvAnswer, Answer: a})
	case "look":
		s.step(Event{Kind: EvAnswer, Answer: Answer{Seq: uint64(num(first())), Epoch: s.epoch,
			Quarantine: int64(s.quar), Group: int64(s.group), Look: s.lookOf(d.Input, dur)}})
	case "news": // the sessions are those of the last look, unless "sessions" names others
		n := &News{Notice: num(arg("notice", "0")), Age: dur(arg("age", "-1ns")), Mine: has("mine")}
		if s.look != nil {
			n.Sum = s.look.Sum()
		}
		for _, a := range d.CmdArgs {
			if a.Key == "sessions" {
				n.Sum = NewSessions(a.Vals).Sum()
			}
		}
		s.step(Event{Kind: EvAnswer, Answer: Answer{Seq: uint64(num(first())), Epoch: s.epoch, Quarantine: int64(s.quar),
			Group: int64(s.group), News: n}})
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

// fence is that of the term that is meant: lease=7, or without a number the present one, else the one that is stuck.
func (s *story) fence(a datadriven.CmdArg) int64 {
	if len(a.Vals) > 0 {
		n, _ := strconv.ParseInt(a.Vals[0], 10, 64)
		return n
	}
	if l := s.core.entries.leases[a.Key]; l != nil {
		return l.Fence()
	}
	return 0
}

// as plays another story.
func (s *story) as(t *testing.T, name string) {
	s.epoch, s.quar, s.group = "r1", 0, 0
	steps(t, "testdata/stories/"+name+".txt", func(d *datadriven.TestData, _ string) { s.run(t, d) })
	s.out.Reset()
	s.was = s.core.states()
}

// states tells in which state each lease is, in the words of the table.
func (s *story) states() {
	now := s.core.states()
	for _, id := range slices.Sorted(maps.Keys(now)) {
		fmt.Fprintf(&s.out, "          %s is %s\n", id, strings.Join(now[id], ", "))
	}
}

// changed tells which leases are in other states than at the end of the story that this one began as.
func (s *story) changed() {
	was, now := s.was, s.core.states()
	ids := maps.Clone(was)
	maps.Copy(ids, now)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		from, to := cmp.Or(strings.Join(was[id], ", "), "none"), cmp.Or(strings.Join(now[id], ", "), "none")
		if from != to {
			fmt.Fprintf(&s.out, "          %s: %s → %s\n", id, from, to)
		}
	}
}

func (s *story) result(t *testing.T, d *datadriven.TestData, w []string, num func(string) int64,
	dur func(string) int64) Result {
	var r Result
	for k, o := range outcomeNames {
		if o == w[0] {
			r.Outcome = Outcome(k)
		}
	}
	if r.Outcome == OutUnknown {
		t.Fatalf("%s: unknown outcome %s", d.Pos, w[0])
	}
	for _, f := range w[1:] {
		key, val, _ := strings.Cut(f, "=")
		switch key {
		case "fence":
			r.Fence = num(val)
		case "owner":
			r.Owner = val
		case "pttl":
			r.PTTL = dur(val)
		}
	}
	return r
}

// lookOf reads "session <id>... <owner or ->" and "node <id> <pttl>" lines.
func (s *story) lookOf(input string, dur func(string) int64) *Look {
	l := &Look{Owners: []string{}}
	var ids []string
	owners := map[string]string{}
	for _, line := range strings.Split(input, "\n") {
		w := strings.Fields(line)
		switch {
		case len(w) >= 3 && w[0] == "session":
			owner := strings.TrimSuffix(w[len(w)-1], "-")
			for _, id := range w[1 : len(w)-1] {
				ids = append(ids, id)
				owners[id] = owner
			}
		case len(w) == 3 && w[0] == "node":
			l.Nodes = append(l.Nodes, Seen{ID: w[1], PTTL: dur(w[2])})
		case len(w) > 0:
			panic("neither session ID... OWNER (- is none) nor node ID TTL: " + line)
		}
	}
	l.Sessions = NewSessions(ids)
	if s.look != nil && slices.Equal(s.look.IDs, l.Sessions.IDs) {
		l.Sessions = s.look
	}
	s.look = l.Sessions
	for _, id := range l.Sessions.IDs {
		l.Owners = append(l.Owners, owners[id])
	}
	return l
}

func (s *story) sleep(d Time) {
	s.now.Mono += d
	s.now.Wall += int64(d)
}

var outcomeNames = []string{"unknown", "granted", "adopted", "held", "free", "quarantine", "renewed", "reasserted", "lost",
	"released", "superseded", "closed", "wrongtype", "alive", "gone"}

var opNames = []string{"", "acquire", "renew", "reassert", "release", "observe", "beat", "leave", "nodes", "look", "ask", "news",
	"supersede"}

var tellNames = []string{"", "ACQUIRED", "RENEWED", "UNCERTAIN", "LOST", "RELEASED", "RELEASE-FAILED", "REFUSED", "YIELD", "KEPT",
	"SUSPECT", "EPOCH", "CLOCK", "REJECTED", "OUTSIDE", "SILENT", "HEARD", "WITHDRAWN", "REFUSING", "ACCEPTING", "DRAINED"}

func (s *story) step(ev Event) {
	ev.Now = s.now
	s.read = 0
	var eff Effects
	if s.seen != nil {
		eff = (&Witness{s.core, s.seen}).Step(ev)
	} else {
		eff = s.core.Step(ev)
	}
	at := time.Duration(s.now.Mono - 1).Round(time.Millisecond)
	for _, t := range eff.Tells {
		fmt.Fprintf(&s.out, "%8s  %s", at, tellNames[t.Kind])
		if t.ID != "" {
			fmt.Fprintf(&s.out, " %s", t.ID)
		}
		if t.Fence != 0 {
			fmt.Fprintf(&s.out, " fence=%d", t.Fence)
		}
		if t.Until != 0 {
			fmt.Fprintf(&s.out, " until=%s", time.Duration(t.Until-1))
		}
		if t.Owner != "" {
			fmt.Fprintf(&s.out, " owner=%s", t.Owner)
		}
		if t.Cause != CauseNone {
			fmt.Fprintf(&s.out, " (%s)", t.Cause)
		}
		if t.Kind == TellRejected {
			fmt.Fprintf(&s.out, " %s", t.Text)
		}
		if t.Wait != 0 {
			fmt.Fprintf(&s.out, " wait=%s", time.Duration(t.Wait).Round(time.Millisecond))
		}
		if v := t.Vacant; v != nil && v.GivenBack {
			fmt.Fprintf(&s.out, ", given back by %s at %s", v.Owner, time.Duration(v.Since-1).Round(time.Millisecond))
		} else if v != nil {
			fmt.Fprintf(&s.out, ", key of %s expired at %s", v.Owner, time.Duration(v.Since-1).Round(time.Millisecond))
		}
		fmt.Fprintln(&s.out)
	}
	for _, op := range eff.Ops {
		if op.Kind == OpObserve && len(op.Items) == 0 {
			s.read = op.Seq
		}
		fmt.Fprintf(&s.out, "%8s  op %d: %s", at, op.Seq, opNames[op.Kind])
		for _, it := range op.Items {
			fmt.Fprintf(&s.out, " %s", it.ID)
			if it.Fence != 0 {
				fmt.Fprintf(&s.out, "/%d", it.Fence)
			}
			if it.Peer != "" {
				fmt.Fprintf(&s.out, "→%s", it.Peer)
			}
		}
		if op.Confirm > 0 {
			fmt.Fprintf(&s.out, ", %d to acknowledge", op.Confirm)
		}
		if op.Probes() {
			fmt.Fprint(&s.out, ", then the epoch")
		}
		if op.Done {
			fmt.Fprint(&s.out, ", everything was read")
		}
		if op.Kind == OpSupersede {
			fmt.Fprintf(&s.out, " %s, quarantine %s", op.Epoch, time.Duration(op.Quarantine))
		}
		if op.Kind.Extends() && op.TTL != s.core.cfg.TTL {
			fmt.Fprintf(&s.out, " ttl=%s", time.Duration(op.TTL))
		}
		fmt.Fprintln(&s.out)
	}
}
