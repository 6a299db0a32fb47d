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

// Where the value in the table is not how long the overlap of the sentence lasted, the sentence says of what it is; an overlap is of two,
// and no longer than both trusted.
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
