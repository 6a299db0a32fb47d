package real

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// Redis shows a lease's holder. If it shows none, or no instance of the run, the instances' reports count.
func TestOwners(t *testing.T) {
	slots := map[string]int{"a": 1, "b": 2}
	e := func(k history.Kind, session, instance string) history.Event {
		return history.Event{Kind: k, Session: session, Instance: instance}
	}
	for _, c := range []struct {
		name   string
		events []history.Event
		want   []int // of s1, s2 and others
	}{
		{"nothing is known", nil, []int{0, 0}},
		{"Redis shows them", []history.Event{e(history.RedisGranted, "s1", "a"), e(history.RedisGranted, "s2", "b")}, []int{1, 2}},
		{
			"Redis knows better than who says so",
			[]history.Event{e(history.Acquired, "s1", "a"), e(history.RedisGranted, "s1", "b"), e(history.Renewed, "s1", "a")}, []int{2, 0},
		},
		{"another program's values are its own", []history.Event{e(history.RedisGranted, "s1", "uuid"), e(history.Acquired, "s1", "b")}, []int{2, 0}},
		{"who does not run owns nothing", []history.Event{e(history.RedisGranted, "s1", "dead")}, []int{0, 0}},
		{"deleted", []history.Event{e(history.RedisGranted, "s1", "a"), e(history.RedisDeleted, "s1", "a")}, []int{0, 0}},
		{"all lost", []history.Event{e(history.RedisGranted, "s1", "a"), e(history.RedisFlushed, "", "")}, []int{0, 0}},
		{"read anew", []history.Event{e(history.RedisGranted, "s1", "a"), e(history.TapUp, "", ""), e(history.RedisGranted, "s2", "a")}, []int{0, 1}},
		{"said", []history.Event{e(history.Acquired, "s1", "a"), e(history.Renewed, "s2", "b")}, []int{1, 2}},
		{"lost, and given back", []history.Event{
			e(history.Acquired, "s1", "a"), e(history.Lost, "s1", "a"), e(history.Acquired, "s2", "a"), e(history.Released, "s2", "a"),
		}, []int{0, 0}},
		{"what the one before lost is the next one's", []history.Event{
			e(history.Acquired, "s1", "a"), e(history.Acquired, "s1", "b"), e(history.Lost, "s1", "a"),
		}, []int{2, 0}},
		{"leases of no session count too", []history.Event{e(history.RedisGranted, "tuner:2", "b"), e(history.RedisGranted, "tuner:1", "a")}, []int{0, 0, 1, 2}},
	} {
		var o owners
		for i := range c.events {
			o.see(&c.events[i])
		}
		if got := o.slots([]string{"s1", "s2"}, slots); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A fault of an owner waits while another fault has the only owner, and hits nobody if that lasts.
func TestFaultsOfOwners(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	cfg := config(t,
		fault.Fault{Kind: fault.Freeze, Target: fault.Owner, For: 60 * ms},
		fault.Fault{At: 50 * ms, Kind: fault.Cut, Target: "owner:session-2", For: 500 * ms},
		fault.Fault{At: 150 * ms, Kind: fault.Latency, Target: fault.Same, For: 10 * ms, Ms: 1}, // during the cut
		fault.Fault{At: 200 * ms, Kind: fault.BlackHole, Target: fault.Leader, For: 10 * ms},    // waits until 350 ms only
		fault.Fault{At: 700 * ms, Kind: fault.Crash, Target: "owner:node-1", For: 100 * ms},
	)
	cfg.Nodes = 1
	out, events := storm(t, provision(t), cfg)
	var order []string
	for _, e := range events {
		if e.Kind == history.FaultStart || e.Kind == history.FaultEnd {
			order = append(order, e.Kind.String()+" "+e.Reason+" "+e.Node)
		}
	}
	want := "faultStart freeze node-1, faultEnd freeze node-1, faultStart cut node-1, " +
		"faultStart latency node-1, faultEnd latency node-1, faultEnd cut node-1, faultStart crash node-1, faultEnd crash node-1"
	if got := strings.Join(order, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if n := slices.IndexFunc(out.Notes, func(n string) bool { return strings.Contains(n, "fault 4 (blackhole leader) was not injected: nobody") }); n < 0 {
		t.Errorf("notes %q: want one of the black hole that found nobody", out.Notes)
	}
}

// A lease belongs to the session whose ID ends its key, whatever a library writes before the ID.
func TestSplitPolling(t *testing.T) {
	const id = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"
	for key, want := range map[string]struct {
		kind stream.Kind
		id   string
	}{
		"poll:lease:" + id:              {stream.KeyLease, id},
		"poll:lease:0:" + id:            {stream.KeyLease, id},
		"poll:lease:0:s-1":              {stream.KeyLease, "0:s-1"},
		"{poll:lease:" + id + "}:fence": {stream.KeyFence, id},
		"poll:node:0:" + id:             {stream.KeyNode, "0:" + id},
		"session:" + id:                 {stream.KeyOther, ""},
	} {
		if kind, got := systems[systemPolling].Split([]byte(key)); kind != want.kind || got != want.id {
			t.Errorf("%s is %d of %q, want %d of %q", key, kind, got, want.kind, want.id)
		}
	}
}
