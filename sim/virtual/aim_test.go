package virtual

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Faults of owners strike who owns then, wait a renewal interval for one, and strike nothing where there is none. When, whom and
// whether stands in the history.
func TestFaultsOfOwners(t *testing.T) {
	const ttl = 3 * time.Second // renewals are a second apart
	s := time.Second
	cfg := Config{Nodes: 3, Sessions: 1, TTL: ttl, Candidates: true, Start: 2 * s, Storm: 20 * s, Calm: s}.withDefaults()
	plan := fault.Plan{Faults: []fault.Fault{
		{At: s, Kind: fault.BlackHole, Target: fault.Owner, For: 5 * s},
		{At: s + 100*time.Millisecond, Kind: fault.Freeze, Target: fault.Owner, For: s},   // the only owner is in hand, and stays it
		{At: 2900 * time.Millisecond, Kind: fault.Cut, Target: "owner:session-1", For: s}, // till another takes over
		{At: 5 * s, Kind: fault.Fragments, Target: fault.Owner, For: s},                   // that one again, which owns it still
		{At: 5500 * time.Millisecond, Kind: fault.Latency, Target: fault.Same, For: s, Ms: 1},
		{At: 9 * s, Kind: fault.Freeze, Target: "owner:session-2", For: s},                  // there is no such session
		{At: 12 * s, Kind: fault.Crash, Target: fault.Leader},                               // for good
		{At: 19500 * time.Millisecond, Kind: fault.CrashAll, For: 100 * time.Millisecond},   // then nobody owns
		{At: 19700 * time.Millisecond, Kind: fault.Freeze, Target: fault.Owner, For: 5 * s}, // the storm is over before anybody does
	}}
	start := int64(cfg.Start)
	held := ""
	type struck struct {
		at         time.Duration
		node, held string // who held the lease in Redis then
	}
	begun, ended, notes := map[int64]struck{}, map[int64]time.Duration{}, []string{}
	newWorld(cfg, plan, 1, func(e history.Event) {
		at := time.Duration(e.T - start)
		switch e.Kind {
		case history.RedisGranted:
			held = strings.Join(strings.Split(e.Instance, "-")[:2], "-")
		case history.FaultStart:
			begun[e.N] = struck{at, e.Node, held}
		case history.FaultEnd:
			ended[e.N] = at
		case history.Note:
			notes = append(notes, e.Reason)
		}
	}).run()
	for _, n := range []int64{0, 2, 3, 6} {
		if b := begun[n]; b.node == "" || b.node != b.held {
			t.Errorf("fault %d struck %q while %q held the lease", n, b.node, b.held)
		}
	}
	if begun[0].at != s || ended[0] != 6*s {
		t.Errorf("the first strikes from %v to %v, want from 1s to 6s", begun[0].at, ended[0])
	}
	if b := begun[2]; b.node == begun[0].node || b.at <= 2900*time.Millisecond || b.at > 3900*time.Millisecond || ended[2] != b.at+s {
		t.Errorf("%+v until %v: want another than %s, within a renewal interval, for 1s", b, ended[2], begun[0].node)
	}
	if begun[3].at != 5*s {
		t.Errorf("a later fault moved to %v, want 5s", begun[3].at)
	}
	if begun[4].at != 5500*time.Millisecond || begun[4].node != begun[3].node {
		t.Errorf("%+v strikes another than %+v, which is still under way", begun[4], begun[3])
	}
	var missed []int64
	for n := range int64(len(plan.Faults)) {
		if _, ok := begun[n]; !ok {
			missed = append(missed, n)
		}
	}
	if !slices.Equal(missed, []int64{1, 5, 8}) || len(notes) != 3 {
		t.Errorf("no target found %v, notes %q: want faults 1, 5 and 8", missed, notes)
	}
}
