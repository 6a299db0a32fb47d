package report

import (
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

func fleet() check.Params {
	return check.Params{Nodes: 3, Sessions: 1, Tap: true, Timings: timing.Timings{
		TTL: 3 * time.Second, Renew: time.Second, RenewTimeout: 300 * time.Millisecond, Heartbeat: time.Second, Discovery: time.Second,
	}}
}

func explained(t *testing.T, p check.Params, events []history.Event) check.Result {
	t.Helper()
	rec := history.NewRecorder()
	for _, e := range events {
		rec.Add(e)
	}
	r, err := check.Judge(p, rec.Events(), nil)
	if err != nil {
		t.Fatal(err)
	}
	Explain(&r, rec.Events())
	return r
}

// The evidence of a break has the events that led to it, however old: the grants, the deletion and the fault, without the renewals in
// between.
func TestEvidenceHoldsTheCause(t *testing.T) {
	const ms, s = int64(time.Millisecond), int64(time.Second)
	p := fleet()
	p.Plan.Faults = []fault.Fault{{Kind: fault.Freeze, Target: "A", At: time.Minute}}
	said := func(at int64, k history.Kind, node string, until int64) history.Event {
		return history.Event{T: at, Kind: k, Node: node, Instance: node, Session: "s1", Fence: 5, Until: until}
	}
	redis := func(at int64, k history.Kind, holder string, until int64) history.Event {
		return history.Event{T: at, Kind: k, Instance: holder, Session: "s1", Until: until}
	}
	events := []history.Event{
		{Kind: history.Ready, Node: "A", Instance: "A"}, {Kind: history.Ready, Node: "B", Instance: "B"},
		redis(99*ms, history.RedisGranted, "A", 3099*ms), said(100*ms, history.Acquired, "A", 3069*ms),
	}
	for at := s; at < 62*s; at += s {
		if at == 60*s {
			events = append(events, history.Event{T: at - ms, Kind: history.FaultStart, Node: "A", Reason: "freeze"})
		}
		events = append(events, said(at, history.RenewStart, "A", 0), redis(at+ms, history.RedisExtended, "", at+3*s),
			said(at+2*ms, history.Renewed, "A", at+3*s), said(at+3*ms, history.AcquireFailed, "B", 0))
	}
	const taken = 62 * s
	for at := taken - 900*ms; at < taken; at += 50 * ms { // events of other leases meanwhile
		events = append(events, history.Event{T: at, Kind: history.Spawned, Node: "C"})
	}
	events = append(events, redis(taken, history.RedisDeleted, "A", 0), redis(taken+ms, history.RedisGranted, "B", taken+3*s),
		said(taken+2*ms, history.Acquired, "B", taken+3*s), history.Event{T: 70 * s, Kind: history.Phase, Reason: "end"})
	r := explained(t, p, events)
	v, _ := r.Verdict("G1")
	has := func(k history.Kind, who string) bool {
		return slices.ContainsFunc(v.Evidence, func(e history.Event) bool { return e.Kind == k && (e.Instance == who || e.Node == who) })
	}
	if v.Verdict != check.Fail || v.Breaks[0].Session != "s1" || v.Breaks[0].From != taken+2*ms {
		t.Fatalf("%+v", v)
	}
	for _, c := range []struct {
		kind history.Kind
		who  string
	}{
		{history.RedisGranted, "A"}, {history.RedisGranted, "B"}, {history.RedisDeleted, "A"}, {history.Acquired, "A"},
		{history.Acquired, "B"}, {history.FaultStart, "A"},
	} {
		if !has(c.kind, c.who) {
			t.Errorf("no %s of %s in %v", c.kind, c.who, v.Evidence)
		}
	}
	if has(history.AcquireFailed, "B") || has(history.Renewed, "B") {
		t.Errorf("routine in %v", v.Evidence)
	}
}

// An expired key was deleted by nobody, and the evidence says so. Its owner did not delete it.
func TestExpiredKeyIsShownAsExpired(t *testing.T) {
	const ms = int64(time.Millisecond)
	for want, gone := range map[string]int64{"expired": 3100 * ms, "": 2000 * ms} {
		r := explained(t, fleet(), []history.Event{
			{Kind: history.Ready, Node: "A", Instance: "A"}, {Kind: history.Ready, Node: "B", Instance: "B"},
			{T: 99 * ms, Kind: history.RedisGranted, Instance: "A", Session: "s1", Until: 3099 * ms},
			{T: 100 * ms, Kind: history.Acquired, Node: "A", Instance: "A", Session: "s1", Fence: 5, Until: 9000 * ms},
			{T: gone, Kind: history.RedisDeleted, Instance: "A", Session: "s1"},
			{T: 3200 * ms, Kind: history.RedisGranted, Instance: "B", Session: "s1", Until: 6200 * ms},
			{T: 3201 * ms, Kind: history.Acquired, Node: "B", Instance: "B", Session: "s1", Fence: 6, Until: 6100 * ms},
			{T: 9100 * ms, Kind: history.Phase, Reason: "end"},
		})
		v, _ := r.Verdict("G1")
		at := slices.IndexFunc(v.Evidence, func(e history.Event) bool { return e.Kind == history.RedisDeleted })
		if at < 0 || v.Evidence[at].Reason != want {
			t.Errorf("%s: want a deletion with the reason %q in %v", v.Verdict, want, v.Evidence)
		}
	}
}
