package real

import (
	"os"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// provision starts a server for the test, or skips it where there is none.
func provision(t *testing.T) *Redis {
	t.Helper()
	return provisionChoice(t, RedisChoice{Kind: "server"})
}

func provisionChoice(t *testing.T, c RedisChoice) *Redis {
	t.Helper()
	if _, err := findServer(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	r, err := Provision(t.Context(), c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// config is a run of two fake nodes whose timings suit a test.
func config(t *testing.T, faults ...fault.Fault) Config {
	t.Helper()
	if testing.Short() {
		t.Skip("make storms plays it")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	return Config{
		Nodes: 2, Sessions: 3, Timings: timing.Timings{
			TTL: 600 * ms, Renew: 150 * ms, Heartbeat: 150 * ms, Discovery: 150 * ms, Poll: 50 * ms, PollTimeout: 200 * ms, Serve: 5 * ms,
		},
		Storm: 1500 * ms, Calm: 900 * ms,
		Plan: fault.Plan{Version: 1, Faults: faults}, NodeCmd: []string{self},
		NodeEnv: []string{"REAL_TEST_PART=node"}, Logs: t.TempDir(), Seed: 7,
		silentWithin: time.Minute, // on a busy machine, a TTL passes quickly
	}
}

// storm runs cfg and returns its events in order.
func storm(t *testing.T, r *Redis, cfg Config) (Outcome, []history.Event) {
	t.Helper()
	rec := history.NewRecorder()
	out, err := Run(t.Context(), r, cfg, rec)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range out.Notes {
		t.Log("note:", n)
	}
	events := collect(t, rec)
	spawns(t, events)
	return out, events
}

// spawns checks that each process was started before it was ready, and ended with its run.
func spawns(t complainer, events []history.Event) {
	spawned := map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case history.Spawned:
			spawned[e.Node] = true
		case history.Exited:
			spawned[e.Node] = false
		case history.Ready:
			if !spawned[e.Node] {
				t.Errorf("%s is ready at %v, before it was started", e.Node, time.Duration(e.T))
			}
		}
		if e.Kind == history.Spawned && runs(int(e.N)) {
			t.Errorf("%s, process %d, outlives its run", e.Node, e.N)
		}
	}
}

func collect(t *testing.T, rec *history.Recorder) []history.Event {
	t.Helper()
	var all []history.Event
	for e, err := range rec.Events() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// count returns how many events of the kind there are that all conditions accept.
func count(events []history.Event, kind history.Kind, where ...func(history.Event) bool) int {
	n := 0
next:
	for _, e := range events {
		if e.Kind != kind {
			continue
		}
		for _, w := range where {
			if !w(e) {
				continue next
			}
		}
		n++
	}
	return n
}

func TestRunCrashFreezeCut(t *testing.T) {
	t.Parallel()
	r := provision(t)
	ms := time.Millisecond
	cfg := config(t,
		fault.Fault{At: 100 * ms, Kind: fault.Crash, Target: "node-1", For: 300 * ms},
		fault.Fault{At: 600 * ms, Kind: fault.Freeze, Target: "node-2", For: 300 * ms},
		fault.Fault{At: 1000 * ms, Kind: fault.Cut, Target: "node-1", For: 300 * ms},
	)
	out, events := storm(t, r, cfg)
	if !out.Tap || out.Interrupted || out.RedisCommands == 0 {
		t.Errorf("outcome %+v: want a stream, no interruption, counted commands", out)
	}
	for kind, want := range map[history.Kind]int{
		history.FaultStart: 3, history.FaultEnd: 3, history.Spawned: 3, history.Exited: 3, history.Ready: 3, history.TapUp: 1,
		history.Stopped: 2, history.Malformed: 0, history.SessionAdded: 3,
	} {
		if got := count(events, kind); got != want {
			t.Errorf("%v: %d events, want %d", kind, got, want)
		}
	}
	for _, kind := range []history.Kind{
		history.Acquired, history.Renewed, history.Released, history.PollStart, history.Arrived, history.Served,
		history.RedisGranted, history.RedisExtended, history.RedisDeleted, history.RedisFence, history.RedisBeat,
	} {
		if count(events, kind) == 0 {
			t.Errorf("%v: no event", kind)
		}
	}
	if t.Failed() {
		for _, e := range events {
			t.Logf("%+v", e)
		}
	}
}
