package report

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// told has the events in a folder, and the report of a run that broke the guarantees.
func told(t *testing.T, events []history.Event, broken ...check.Verdict) string {
	t.Helper()
	dir := t.TempDir()
	rec := history.NewRecorder()
	for _, e := range events {
		rec.Add(e)
	}
	if err := rec.Save(filepath.Join(dir, history.FileName)); err != nil {
		t.Fatal(err)
	}
	for i := range broken {
		broken[i].Verdict = check.Fail
	}
	r := Report{Guarantees: broken, Verdict: check.Fail, Config: check.Params{Timings: timing.Timings{TTL: 3 * time.Second}, Criteria: []string{"G1", "G2", "G9"}}}
	var b strings.Builder
	if err := r.Failures(&b, dir); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A frozen owner, whose key passes to another that polls beside it.
func beside(reason string) []history.Event {
	word := func(ms int64, k history.Kind, node string, until int64) history.Event {
		return history.Event{T: ms * mil, Kind: k, Node: node, Instance: "i-" + node, Session: "s", Until: until * mil}
	}
	seen := func(ms int64, k history.Kind, node string, until int64) history.Event {
		return history.Event{T: ms * mil, Kind: k, Instance: "i-" + node, Session: "s", Until: until * mil}
	}
	return []history.Event{
		{Kind: history.Spawned, Node: "node-1"}, {Kind: history.Spawned, Node: "node-2"}, {Kind: history.Spawned, Node: "node-3"},
		seen(0, history.RedisGranted, "node-1", 3000), word(1, history.Acquired, "node-1", 0),
		seen(1000, history.Arrived, "node-1", 0),
		{T: 1500 * mil, Kind: history.FaultStart, Node: "node-1", Reason: reason},
		{T: 1600 * mil, Kind: history.FaultStart, N: 1, Node: "node-3", Reason: "cut"},
		seen(3000, history.RedisDeleted, "node-1", 0),
		seen(3010, history.RedisGranted, "node-2", 6010), word(3011, history.Acquired, "node-2", 6000),
		seen(4000, history.Arrived, "node-2", 0), seen(4400, history.Rejected, "node-1", 0),
		{T: 4500 * mil, Kind: history.FaultEnd, Node: "node-1", Reason: reason},
		{T: 5000 * mil, Kind: history.Exited, Node: "node-1"},
		{T: 9000 * mil, Kind: history.Phase, Reason: "end"},
	}
}

func TestDrawing(t *testing.T) {
	broken := check.Verdict{ID: "G1", Value: 1989, Unit: "ms of overlap", Session: "s", From: 3011 * mil, At: 5000 * mil}
	got := told(t, beside("freeze"), broken)
	want := `
G1 one owner is BROKEN (1989 ms of overlap, limit 0)

                                   v freeze node-1 ----------------------------
  Redis      1111111111111111111111111111111111111111111122222222222222222222222222222222222222222222........
  node-1     =========================================================================
  node-2     ............................................============================================........
  polled by                1                                            2
  refused                                                                    1
             0.01s           1.09s           2.17s           3.26s           4.34s           5.42s
  =  trusts its lease   .  does not; of Redis: nobody's key   1 node-1, 2 node-2
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("drawn is\n%s", got)
	}
}

// What a fault, or a node, is called by whoever wrote the history adds no line to a drawing.
func TestDrawingKeepsItsLines(t *testing.T) {
	broken := check.Verdict{ID: "G1", Value: 1, Session: "s", From: 3011 * mil, At: 5000 * mil}
	got := told(t, beside("freeze\nG2 is fine"), broken)
	if strings.Contains(got, "\nG2 is fine") || !strings.Contains(got, `v freeze\u000aG2 is fine node-1`) {
		t.Errorf("%s", got)
	}
}

// All guarantees that were not asked for take one line; one that broke although its value is within its limit shows no value.
func TestOthersTakeALine(t *testing.T) {
	got := told(t, beside("freeze"),
		check.Verdict{ID: "G9", Value: 590, Limit: 1750, Unit: "ms", Detail: "G1 was broken when Redis failed"},
		check.Verdict{ID: "G6", Value: 7, Unit: "leases", Detail: "node-2 has too many"},
		check.Verdict{ID: "G10", Value: 39, Unit: "foreign changes", Detail: "node-1 renewed what it did not hold; and 38 more"})
	for _, want := range []string{
		"G9 Redis fails is BROKEN\n  G1 was broken when Redis failed\n",
		"\nNot asked for, and broken: G6 balance, G10 only the owner (see report.json)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

// Faults that somebody made up are drawn as fast as they are read: their ends do not look through all of them.
func TestManyFaultsAreDrawn(t *testing.T) {
	const faults = 100_000
	l := newLanes(check.Verdict{Session: "s", From: 0, At: 10 * faults}, 3*time.Second)
	began := time.Now()
	for _, kind := range []history.Kind{history.FaultStart, history.FaultEnd} {
		for i := range int64(faults) {
			l.event(&history.Event{T: 1, Kind: kind, N: i, Node: "node-1", Reason: "cut"})
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d faults took %v", faults, took)
	}
	for _, f := range l.faults {
		if f.to != 1 {
			t.Fatalf("a fault ended at %d", f.to)
		}
	}
	if len(l.faults) != faults {
		t.Errorf("%d faults of %d", len(l.faults), faults)
	}
}

// A value is shown where it is what broke, and a limit that is the least to be seen as one.
func TestCells(t *testing.T) {
	for _, c := range []struct {
		v            check.Verdict
		value, limit string
	}{
		{check.Verdict{ID: "G9", Verdict: check.Fail, Value: 99, Limit: 750, Exercised: 1}, "-", "750"},
		{check.Verdict{ID: "G9", Verdict: check.Fail, Value: 751, Limit: 750}, "751", "750"},
		{check.Verdict{ID: "G11", Verdict: check.Pass, Value: 11, Limit: 10, Exercised: 3}, "11", ">= 10"},
		{check.Verdict{ID: "G11", Verdict: check.Fail, Value: 11, Limit: 10, Exercised: 3}, "-", ">= 10"},
		{check.Verdict{ID: "G5", Verdict: check.Unknown, Limit: 750}, "-", "750"},
	} {
		if value, limit := Cells(c.v); value != c.value || limit != c.limit {
			t.Errorf("%+v: %q, %q; want %q, %q", c.v, value, limit, c.value, c.limit)
		}
	}
}
