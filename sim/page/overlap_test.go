package page

import (
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// twoMasters is a run in which an old master lets its copy of node-1's key expire and grants the lease to node-2, while the sentinels'
// master has it for node-1. kind is node-2's report.
func twoMasters(kind history.Kind) []history.Event {
	events := overlapped(func(end int64) int64 { return end + 3*second }, "")
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == history.RedisExtended:
			e.Until = 8 * second
		case e.Kind.OfRedis() && e.T >= 5*second:
			e.Node = "server 1"
		case e.Kind == history.Acquired && e.T > 5*second:
			e.Kind = kind
		}
	}
	at := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.RenewStart })
	return slices.Insert(events, at, history.Event{
		T: second + 5, Kind: history.RedisGranted, Node: "server 1", Instance: "inst-1", Session: lease1, Until: 5 * second, Reason: "snapshot",
	})
}

// With two masters, the page says which granted the lease and which let it expire. Nobody deleted the key, and a renewal is no acquisition.
func TestSentenceOfTwoMasters(t *testing.T) {
	p := params()
	p.Topology = "sentinel"
	const want = "Two servers of Redis acted as masters: the master that the sentinels know had extended the lease for node-1 at 2.000 s " +
		"(until 8.000 s), and server 1 granted it to node-2 at 5.000 s, where the key expired at 5.000 s."
	for kind, verb := range map[history.Kind]string{history.Acquired: "server 1 grants the lease to node-2, which acquires", history.Renewed: "node-2 renews"} {
		dir, r := saved(t, p, twoMasters(kind))
		m := build(dir, r)
		if got := headline(m); !strings.HasSuffix(got, want) {
			t.Errorf("%s: it says\n%s\nnot\n%s", kind, got, want)
		}
		if len(m.Breaks) == 0 || !slices.ContainsFunc(m.Breaks[0].Steps, func(s step) bool { return strings.HasPrefix(s.Text, verb) }) {
			t.Errorf("%s: no step says %q: %+v", kind, verb, m.Breaks)
		}
		if !slices.Contains(m.Head.Facts, "sentinel, Replicas 0") {
			t.Errorf("the head does not say which Redis it was: %q", m.Head.Facts)
		}
	}
}
