package check

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Breaks name the lease, its owners, the times, the fault that caused them and the missing event, and which break began first, even if
// there are more than are listed.
func TestBreaksAreListed(t *testing.T) {
	const ms, s = int64(time.Millisecond), int64(time.Second)
	p := storyParams()
	p.Tap = true
	p.Plan.Faults = []fault.Fault{{Kind: fault.PollSlow, Target: "s9"}, {Kind: fault.BlackHole, Target: "A", For: 10 * time.Second}}
	events := []history.Event{
		{Kind: history.Ready, Node: "A", Instance: "A"}, {Kind: history.Ready, Node: "B", Instance: "B"},
		{T: 100 * ms, Kind: history.RedisGranted, Session: "s1", Instance: "token of A", Until: 3100 * ms},
		{T: 101 * ms, Kind: history.Acquired, Node: "A", Instance: "A", Session: "s1", Fence: 5}, // until another event
		{T: 1 * s, Kind: history.FaultStart, Session: "s9", Reason: "poll-slow"},
		{T: 1 * s, Kind: history.FaultStart, N: 1, Node: "A", Reason: "blackhole"},
		{T: 3101 * ms, Kind: history.RedisDeleted, Session: "s1"},
		{T: 3200 * ms, Kind: history.RedisGranted, Session: "s1", Instance: "B", Until: 6200 * ms},
		{T: 3202 * ms, Kind: history.Acquired, Node: "B", Instance: "B", Session: "s1", Fence: 6, Until: 6190 * ms},
	}
	for i := range int64(2 * breaksMax) { // of another lease, without a fault, and noticed earlier
		at := 4*s + i*20*ms
		events = append(events,
			history.Event{T: at, Kind: history.Acquired, Node: "A", Instance: "A", Session: "s2", Fence: 2*i + 1, Until: at + 10*ms},
			history.Event{T: at + ms, Kind: history.Acquired, Node: "B", Instance: "B", Session: "s2", Fence: 2*i + 2, Until: at + 11*ms})
	}
	events = append(events, history.Event{T: 8 * s, Kind: history.Lost, Node: "A", Instance: "A", Session: "s1", Fence: 5, Reason: "taken"},
		history.Event{T: 9 * s, Kind: history.Phase, Reason: "end"})
	r, err := Judge(p, sequence(events), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := r.Verdict("G1")
	want := Break{
		From: 3202 * ms, To: 6190 * ms, Deadline: 3100 * ms, Session: "s1", Owners: []Owner{{"A", 5}, {"B", 6}},
		Fault: &Suspected{1, "blackhole"}, First: true,
		Text: "A and B both trusted their lease of session s1 for 2988 ms, from 3.202s to 6.19s: the first had it from 101ms (fence 5) and " +
			"believed until 8s, the second had it from 3.202s (fence 6) and believed until 6.19s",
	}
	if len(v.Breaks) != breaksMax {
		t.Fatalf("%d breaks are listed one by one, want %d", len(v.Breaks), breaksMax)
	}
	if diff := cmp.Diff(want, v.Breaks[breaksMax-1]); diff != "" {
		t.Errorf("the first one:\n%s", diff)
	}
	if b := v.Breaks[0]; b.Session != "s2" || b.First || b.From != 4*s+ms || b.To != 4*s+10*ms {
		t.Errorf("the one that was noticed first: %+v", b)
	}
	broken := uint64(0)
	for _, k := range v.Kinds {
		broken += k.Broken
	}
	if broken < 2*breaksMax+1 {
		t.Errorf("%d breaks by kind of fault: %+v", broken, v.Kinds)
	}
}

// An instance that trusts a lease for longer than Redis granted it is the only owner of that break. If another instance trusts the lease
// meanwhile, that is a separate break.
func TestTrustBeyondTheGrantIsOfOne(t *testing.T) {
	const ms = int64(time.Millisecond)
	p := storyParams()
	p.Tap = true
	r, err := Judge(p, sequence([]history.Event{
		{Kind: history.Ready, Node: "A", Instance: "A"}, {Kind: history.Ready, Node: "B", Instance: "B"},
		{T: 99 * ms, Kind: history.RedisGranted, Instance: "A", Session: "s1", Until: 3099 * ms},
		{T: 100 * ms, Kind: history.Acquired, Node: "A", Instance: "A", Session: "s1", Fence: 5, Until: 4000 * ms},
		{T: 3099 * ms, Kind: history.RedisDeleted, Session: "s1"},
		{T: 3200 * ms, Kind: history.RedisGranted, Instance: "B", Session: "s1", Until: 6200 * ms},
		{T: 3201 * ms, Kind: history.Acquired, Node: "B", Instance: "B", Session: "s1", Fence: 6, Until: 9000 * ms},
		{T: 9100 * ms, Kind: history.Phase, Reason: "end"},
	}), nil)
	v, _ := r.Verdict("G1")
	owners := map[string]int{}
	for _, b := range v.Breaks {
		var who []string
		for _, o := range b.Owners {
			who = append(who, o.Instance)
		}
		owners[strings.Join(who, "+")]++
	}
	if want := map[string]int{"A": 1, "B": 1, "A+B": 1}; err != nil || !maps.Equal(owners, want) {
		t.Errorf("%v: breaks of %v, want %v", err, owners, want)
	}
}
