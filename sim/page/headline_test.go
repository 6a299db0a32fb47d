package page

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// twice is a run whose second overlap is longer than the first.
func twice() []history.Event {
	events := overlapped(noUntil, "")
	end := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Phase && e.Reason == "calm" })
	return slices.Insert(events, end,
		history.Event{T: 8*second + 1, Kind: history.RedisGranted, Instance: "inst-1", Session: lease1, Until: 8*second + second/2},
		history.Event{T: 8*second + 2, Kind: history.Acquired, Node: "node-1", Instance: "inst-1", Session: lease1, Fence: fenceOne + 2},
		history.Event{T: 8*second + second/2, Kind: history.RedisDeleted, Session: lease1},
		history.Event{T: 8*second + second/2 + 1, Kind: history.RedisGranted, Instance: "inst-2", Session: lease1, Until: 18 * second},
		history.Event{
			T: 8*second + second/2 + 2, Kind: history.Acquired, Node: "node-2", Instance: "inst-2", Session: lease1, Fence: fenceOne + 3,
			Until: 11*second + second/2,
		})
}

// bothTooLong is a run in which each of two owners trusts for 3 s more than Redis granted it, and both together for 2 s.
func bothTooLong() []history.Event {
	events := overlapped(func(end int64) int64 { return end + 3*second }, "")
	for i := range events {
		if e := &events[i]; e.Kind == history.Acquired && e.Node == "node-2" {
			e.Until += 3 * second
		}
	}
	return events
}

// If the table's value is not the length of the sentence's overlap, the sentence says what the value is. An overlap has two owners and
// lasts no longer than both trust the lease.
func TestSentenceTellsWhatTheTableMeasures(t *testing.T) {
	for name, c := range map[string]struct {
		events        []history.Event
		value         int64
		said, end, of string
	}{
		"one overlap": {overlapped(noUntil, ""), 2000, " for 2.00 s from 5.000 s.", " and trusted on.", "G8 no missed polls). "},
		"a longer overlap": {
			twice(), 3000, " for 2.00 s from 5.000 s.", " This overlap began first; the longest lasted 3000 ms.",
			"G1: 2 overlaps on 1 session of 1; this one began first.",
		},
		"a trust that was longer": {
			bothTooLong(), 3000, " for 2.00 s from 5.000 s.",
			" The table's 3000 ms are how much longer one trusted its lease than Redis had granted it.",
			"G1: 4 breaks on 1 session of 1; this one began first of the overlaps.",
		},
	} {
		dir, r := saved(t, params(), c.events)
		m := build(dir, r)
		if got := headline(m); !strings.Contains(got, c.said) || !strings.HasSuffix(got, c.end) || !strings.HasSuffix(m.Head.Sub, c.of) {
			t.Errorf("%s: it says\n%s\n%s\nnot %q … %q and %q", name, got, m.Head.Sub, c.said, c.end, c.of)
		}
		if m.Guarantees[0].Value != c.value {
			t.Errorf("%s: the table says %d, not %d", name, m.Guarantees[0].Value, c.value)
		}
	}
}

// tokened returns the run with tokens in the keys, as most lock libraries have them.
func tokened(events []history.Event) []history.Event {
	for i := range events {
		if e := &events[i]; e.Kind.OfRedis() && e.Instance != "" {
			e.Instance = "token of " + e.Instance
		}
	}
	return events
}

// A token in a key belongs to the instance that reports acquired while Redis has it, so the cause is found as with instance IDs.
func TestSentenceOfTokens(t *testing.T) {
	for _, until := range []func(end int64) int64{noUntil, func(end int64) int64 { return end + 3*second }} {
		dir, r := saved(t, params(), overlapped(until, ""))
		want := headline(build(dir, r))
		dir, r = saved(t, params(), tokened(overlapped(until, "")))
		if got := headline(build(dir, r)); got != want {
			t.Errorf("it says\n%s\nnot\n%s", got, want)
		}
	}
}

// renewal is a renewal of the second owner's key, reported by says; "": by nobody.
func renewal(at int64, says, node string) []history.Event {
	return []history.Event{
		{T: at, Kind: history.RedisExtended, Instance: "inst-2", Session: lease1, Until: at + 3*second},
		{T: at + 1, Kind: history.Renewed, Node: node, Instance: says, Session: lease1, Until: at + 3*second},
	}
}

// Renewals that do not compare the owner can begin or prolong an overlap. An owner's renewals of its own key explain nothing.
func TestSentenceOfRenewalsThatDoNotCompare(t *testing.T) {
	inTime := func(end int64) int64 { return end }
	for name, c := range map[string]struct {
		until func(end int64) int64
		says  string
		node  string
		want  string
	}{
		"it lasts": {noUntil, "inst-1", "node-1", "A blackhole had cut node-1 off: its lease ended at Redis at 5.000 s, but node-1 had set itself no " +
			"deadline (no “until”) and trusted on. It lasted because node-1 kept renewing the lease of node-2 without comparing its owner."},
		"it begins": {inTime, "inst-1", "node-1", "A blackhole had cut node-1 off: node-1 renewed the lease of node-2 without comparing its owner."},
		"its own": {noUntil, "inst-2", "node-2", "A blackhole had cut node-1 off: its lease ended at Redis at 5.000 s, but node-1 had set itself no " +
			"deadline (no “until”) and trusted on."},
	} {
		t.Run(name, func(t *testing.T) {
			events := overlapped(c.until, "")
			at := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Rejected })
			events = slices.Insert(events, at, renewal(5*second+second/2, c.says, c.node)...)
			dir, r := saved(t, params(), tokened(events))
			if got := headline(build(dir, r)); !strings.HasSuffix(got, ". "+c.want) {
				t.Errorf("it says\n%s\nnot\n%s", got, c.want)
			}
		})
	}
}
