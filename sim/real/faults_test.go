package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Every kind that this engine supports hits once, and is healed if it lasts.
func TestEveryKindIsInjected(t *testing.T) {
	ms := time.Millisecond
	plans := map[string][]fault.Fault{
		"processes": {
			{At: 50 * ms, Kind: fault.Terminate, Target: "node-1", For: 600 * ms}, // node-2 owns all when it is paused
			{At: 500 * ms, Kind: fault.CheckSend, Target: "node-2"},
			{At: 650 * ms, Kind: fault.Join, Target: "node-3"},
			{At: 1700 * ms, Kind: fault.Leave, Target: "node-1"},
			{At: 1900 * ms, Kind: fault.CrashAll, For: 100 * ms},
		},
		"network": { // longer than a renewal interval and a timeout, so the owner cannot renew
			{At: 50 * ms, Kind: fault.BlackHole, Target: "node-1", For: 200 * ms},
			{At: 60 * ms, Kind: fault.Latency, Target: "node-2", For: 200 * ms, Ms: 20, Jitter: 10},
			{At: 400 * ms, Kind: fault.RequestsLost, Target: "node-2", For: 400 * ms},
			{At: 410 * ms, Kind: fault.Fragments, Target: "node-1", For: 200 * ms},
			{At: 900 * ms, Kind: fault.RepliesLost, Target: "node-1", For: 400 * ms},
			{At: 910 * ms, Kind: fault.Bandwidth, Target: "node-2", For: 200 * ms, KBps: 2},
			{At: 1400 * ms, Kind: fault.Flapping, Target: "node-1", For: 200 * ms, Ms: 50},
		},
		"redis": {
			{At: 50 * ms, Kind: fault.RedisOutage, For: 100 * ms},
			{At: 300 * ms, Kind: fault.RedisRestart},
			{At: 500 * ms, Kind: fault.RedisWipe, For: 50 * ms},
			{At: 750 * ms, Kind: fault.RedisFlush},
			{At: 800 * ms, Kind: fault.RedisFreeze, For: 100 * ms},
			{At: 1000 * ms, Kind: fault.RedisSlow, Ms: 50},
			{At: 1100 * ms, Kind: fault.RedisReadOnly, For: 100 * ms},
			{At: 1300 * ms, Kind: fault.ScriptFlush},
			{At: 1310 * ms, Kind: fault.ClientKill},
			{At: 1320 * ms, Kind: fault.KeyDelete, Target: "session-2"},
			{At: 1400 * ms, Kind: fault.RedisLoading, Ms: 300},
		},
		"refusals": {
			{At: 50 * ms, Kind: fault.RedisMemory, For: 100 * ms},
			{At: 250 * ms, Kind: fault.RedisNoReplicas, For: 100 * ms},
			{At: 450 * ms, Kind: fault.RedisNoPerm, For: 100 * ms, Deny: fault.DenyFences},
			{At: 650 * ms, Kind: fault.RedisNoPerm, For: 100 * ms, Deny: fault.DenyLeases},
			{At: 850 * ms, Kind: fault.RedisNoPerm, For: 100 * ms, Deny: fault.DenySet},
			{At: 1050 * ms, Kind: fault.RedisMisconf, For: 100 * ms}, // last: it takes a moment to prepare
		},
		"workload": {
			{At: 50 * ms, Kind: fault.SessionAdd, Ms: 3},
			{At: 100 * ms, Kind: fault.SessionRemove, Target: "session-1"},
			{At: 200 * ms, Kind: fault.SessionPause, Target: "session-2", For: 200 * ms},
			{At: 300 * ms, Kind: fault.SessionPause, Target: "session-2", For: 150 * ms}, // one pause, until 450 ms
			{At: 500 * ms, Kind: fault.PollSlow, Target: "session-2", For: 200 * ms, Ms: 50},
			{At: 600 * ms, Kind: fault.PollHang, Target: "session-3", For: 200 * ms},
		},
	}
	injected := map[fault.Kind]bool{
		fault.Crash: true, fault.Freeze: true, fault.Cut: true, // in TestRunCrashFreezeCut
		fault.BeatStale: true, // of an election, in scenarios
	}
	for name, plan := range plans {
		for _, f := range plan {
			injected[f.Kind] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, plan...)
			cfg.Storm = plan[len(plan)-1].At + 500*ms
			paced(t, cfg, func(t complainer, out Outcome, events []history.Event) {
				hits(t, plan, out, events)
				inspect[name](t, events)
			})
		})
	}
	for _, k := range fault.Kinds() {
		if !injected[k] {
			t.Errorf("%s is injected by no test", k)
		}
	}
}

// hits checks that each fault of a plan hit once, and ended if it lasts.
func hits(t complainer, plan []fault.Fault, out Outcome, events []history.Event) {
	starts, ends := map[int64]int{}, map[int64]int{}
	for _, e := range events {
		switch e.Kind {
		case history.FaultStart:
			starts[e.N]++
		case history.FaultEnd:
			ends[e.N]++
		}
	}
	for n, f := range plan {
		lasts := f.For > 0 || f.Kind == fault.CheckSend || f.Kind == fault.RedisRestart || f.Kind == fault.RedisSlow ||
			f.Kind == fault.RedisLoading
		if starts[int64(n)] != 1 || (ends[int64(n)] == 1) != lasts {
			t.Errorf("%s: %d starts, %d ends (it lasts: %v)", f.Kind, starts[int64(n)], ends[int64(n)], lasts)
		}
	}
	if failed := slices.ContainsFunc(out.Notes, func(n string) bool { return strings.HasPrefix(n, "fault ") }); failed || !out.Tap {
		t.Errorf("a fault did not do what it should (%v), or there is no stream (%v)", failed, !out.Tap)
	}
}

// complainer is a test, or a collector of complaints.
type complainer interface {
	Error(args ...any)
	Errorf(format string, args ...any)
}

type complaints []string

func (c *complaints) Error(args ...any) { *c = append(*c, fmt.Sprint(args...)) }
func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// paced plays a storm on its own Redis and examines it. If the machine stalled and a check failed, paced plays the storm again at a quarter
// of the speed, at most twice. On a stalled machine, faults a few tenths of a second apart overlap or hit nobody, and servers start too
// late.
func paced(t *testing.T, cfg Config, examine func(t complainer, out Outcome, events []history.Event)) {
	t.Helper()
	const slowest = 16
	for pace := 1; ; pace *= 4 {
		r, slow := provision(t), slowed(cfg, pace)
		rec := history.NewRecorder()
		out, err := Run(t.Context(), r, slow, rec)
		events := collect(t, rec)
		var found complaints
		spawns(&found, events)
		if examine(&found, out, events); err != nil {
			found.Error(err)
		}
		if len(found) == 0 {
			return
		}
		if pace == slowest || !starvedMachine(out, events) {
			t.Errorf("at 1/%d of the pace: %q; notes: %q", pace, found, out.Notes)
			dump(t, events)
			return
		}
		t.Logf("at 1/%d of the pace: %q; notes: %q", pace, found, out.Notes)
	}
}

// slowed multiplies all times of a run, except the amounts of faults.
func slowed(cfg Config, by int) Config {
	for _, d := range []*time.Duration{
		&cfg.TTL, &cfg.Renew, &cfg.Heartbeat, &cfg.Discovery, &cfg.Poll, &cfg.PollTimeout, &cfg.Serve, &cfg.Storm, &cfg.Calm,
	} {
		*d *= time.Duration(by)
	}
	cfg.Plan.Faults = slices.Clone(cfg.Plan.Faults)
	for i := range cfg.Plan.Faults {
		cfg.Plan.Faults[i].At *= time.Duration(by)
		cfg.Plan.Faults[i].For *= time.Duration(by)
	}
	return cfg
}

// starvedMachine reports whether stalls took a twentieth of the run, or a fault waited in vain for a server under another fault.
func starvedMachine(out Outcome, events []history.Event) bool {
	var stalls, until int64
	for _, e := range events {
		if e.Kind == history.Stall {
			stalls, until = stalls+max(0, e.Until-max(e.T, until)), max(until, e.Until)
		}
	}
	return len(events) > 0 && 20*stalls > events[len(events)-1].T || slices.ContainsFunc(out.Notes, func(n string) bool {
		return strings.HasSuffix(n, "Redis is under another fault")
	})
}

// A node without polls pauses only after the fault that requested the pause has given up. That fault still explains the late send.
func TestLatePauseIsThePlans(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	cfg := config(t,
		fault.Fault{At: 50 * ms, Kind: fault.CheckSend, Target: "node-1"},
		fault.Fault{At: 1400 * ms, Kind: fault.SessionAdd, Ms: 4},
	)
	cfg.Nodes, cfg.Sessions, cfg.Storm = 1, 0, 2500*ms // with two nodes, the other might acquire all leases
	_, events := storm(t, provision(t), cfg)
	var about []history.Kind
	for _, e := range events {
		if e.Kind == history.Paused || e.N == 0 && (e.Kind == history.FaultStart || e.Kind == history.FaultEnd) {
			about = append(about, e.Kind)
		}
	}
	if want := []history.Kind{history.FaultStart, history.Paused, history.FaultEnd}; !slices.Equal(about, want) {
		t.Errorf("%v, want %v", about, want)
		dump(t, events)
	}
}

func dump(t *testing.T, events []history.Event) {
	t.Helper()
	for _, e := range events {
		if e.Kind != history.PollStart && e.Kind != history.PollEnd && e.Kind != history.RenewStart &&
			e.Kind != history.Arrived && e.Kind != history.Served {
			t.Logf("%8.1f ms %-14s %s %s %s n=%d fence=%d %s", float64(e.T)/1e6, e.Kind, e.Node, e.Instance, e.Session, e.N,
				e.Fence, e.Reason)
		}
	}
}

// inspect has further checks of the histories of TestEveryKindIsInjected.
var inspect = map[string]func(complainer, []history.Event){
	"processes": func(t complainer, events []history.Event) {
		if n := count(events, history.Paused); n != 1 {
			t.Errorf("%d pauses, want 1", n)
		}
		if n := count(events, history.Rejected); n < 1 {
			t.Error("the poll of the paused node was not refused by its fence")
		}
		if n := count(events, history.Exited, func(e history.Event) bool { return e.Reason != "asked" }); n != 0 {
			t.Errorf("%d processes ended unasked", n)
		}
	},
	"network": func(t complainer, events []history.Event) {
		if n := count(events, history.Exited, func(e history.Event) bool { return e.N != 0 }); n != 0 {
			t.Errorf("%d nodes did not end cleanly: the network was not healed", n)
		}
		if count(events, history.Lost) == 0 {
			t.Error("no node lost a lease to the network")
		}
	},
	"redis": func(t complainer, events []history.Event) {
		downs, ups := count(events, history.RedisDown), count(events, history.RedisUp)
		if downs != ups || downs != 7 {
			t.Errorf("Redis went down %d times and came back %d times, want 7", downs, ups)
		}
		if n := count(events, history.RedisUp, func(e history.Event) bool { return e.Reason == "empty" }); n != 1 {
			t.Errorf("Redis came back empty %d times, want 1", n)
		}
		if n := count(events, history.RedisFlushed); n != 1 {
			t.Errorf("%d flushes seen, want 1", n)
		}
		if ups, downs := count(events, history.TapUp), count(events, history.TapDown); ups < 4 || ups != downs+1 && ups != downs {
			t.Errorf("the stream was up %d times and went down %d times", ups, downs)
		}
		var down, up int64
		for _, e := range events {
			if e.Kind == history.RedisDown && e.Reason == string(fault.RedisLoading) {
				down = e.T
			} else if e.Kind == history.RedisUp && down != 0 && up == 0 {
				up = e.T
			}
		}
		if loaded := time.Duration(up - down); loaded < 200*time.Millisecond {
			t.Errorf("Redis was back %v after the start of a load of 300 ms", loaded)
		}
	},
	"refusals": func(t complainer, events []history.Event) {
		downs, ups := count(events, history.RedisDown), count(events, history.RedisUp)
		if downs != 6 || ups != 6 {
			t.Errorf("Redis began to refuse %d times and ended it %d times, want 6", downs, ups)
		}
		if n := count(events, history.TapDown); n > 1 { // one at the end of the run
			t.Errorf("the stream was interrupted %d times", n)
		}
	},
	"workload": func(t complainer, events []history.Event) {
		for kind, want := range map[history.Kind]int{
			history.SessionAdded: 6, history.SessionRemoved: 1, history.SessionPaused: 1, history.SessionResumed: 1,
		} {
			if got := count(events, kind); got != want {
				t.Errorf("%v: %d, want %d", kind, got, want)
			}
		}
		slowest := int64(0)
		arrived := map[int64]int64{}
		for _, e := range events {
			switch e.Kind {
			case history.Arrived:
				arrived[e.N] = e.T
			case history.Served:
				slowest = max(slowest, e.T-arrived[e.N])
			}
		}
		if slowest < int64(50*time.Millisecond) {
			t.Errorf("the slowest poll took %v, and the plan slowed one down to 50 ms", time.Duration(slowest))
		}
	},
}

// touch reads a key, then writes it. A script that is refused at its first write has read.
const touch = `redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])`

// During a fault, Redis refuses the right commands with its own errors, and executes the others. Afterwards it refuses nothing.
func TestRefusals(t *testing.T) {
	const lease, fence = "poll:lease:x", "{poll:lease:x}:fence"
	r := provision(t)
	nodes := redis.NewClient(&redis.Options{Addr: r.url.Addr, DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = nodes.Close() }()
	ctx := t.Context()
	for _, c := range []struct {
		kind    fault.Kind
		deny    string
		key     string // refused key
		words   string // error
		other   string // a key whose writes are not refused, if there is one
		unread  bool   // reads of the key are refused too
		harness bool   // the harness itself may write
	}{
		{kind: fault.RedisReadOnly, key: lease, words: "READONLY "},
		{kind: fault.RedisMemory, key: lease, words: "OOM "},
		{kind: fault.RedisNoReplicas, key: lease, words: "NOREPLICAS "},
		{kind: fault.RedisMisconf, key: lease, words: "MISCONF "},
		{kind: fault.RedisNoPerm, deny: fault.DenyFences, key: fence, words: "NOPERM ", other: lease, unread: true, harness: true},
		{kind: fault.RedisNoPerm, deny: fault.DenyLeases, key: lease, words: "NOPERM ", other: fence, unread: true, harness: true},
		{kind: fault.RedisNoPerm, deny: fault.DenyLeases, key: lease, words: "NOPERM ", other: "poll:node:x", unread: true, harness: true},
		{kind: fault.RedisNoPerm, deny: fault.DenySet, key: lease, words: "ERR The user executing the script can't run this command", harness: true},
	} {
		begin, end := refusing(fault.Fault{Kind: c.kind, Deny: c.deny}, systems[systemPolling])
		if c.kind == fault.RedisMisconf {
			if err := failToSave(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.client.Load().Do(ctx, begin...).Err(); err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		if err := nodes.Eval(ctx, touch, []string{c.key}, "mine").Err(); err == nil || !strings.HasPrefix(err.Error(), c.words) {
			t.Errorf("%s %s: a write is answered %v, want %s", c.kind, c.deny, err, c.words)
		}
		if err := nodes.Get(ctx, c.key).Err(); (err != nil && err != redis.Nil) != c.unread { //nolint:errorlint // a sentinel that is never wrapped
			t.Errorf("%s %s: a read is answered %v", c.kind, c.deny, err)
		}
		if c.other != "" {
			if err := nodes.Eval(ctx, touch, []string{c.other}, "mine").Err(); err != nil {
				t.Errorf("%s %s: a write of %s is answered %v", c.kind, c.deny, c.other, err)
			}
		}
		if err := r.client.Load().Set(ctx, lease, "harness", 0).Err(); (err == nil) != c.harness {
			t.Errorf("%s %s: the harness' own write is answered %v", c.kind, c.deny, err)
		}
		if err := r.client.Load().Do(ctx, end...).Err(); err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		for _, key := range []string{lease, fence} {
			if err := nodes.Eval(ctx, touch, []string{key}, "mine").Err(); err != nil {
				t.Errorf("after %s %s: a write of %s is answered %v", c.kind, c.deny, key, err)
			}
		}
	}
}

// If an ACL denies a joining node what it needs, the node restarts until it is ready. A node that exits for another reason stays down.
func TestNodeThatRedisTurnsAway(t *testing.T) {
	ms := time.Millisecond
	denied := fault.Fault{At: 20 * ms, Kind: fault.RedisNoPerm, For: 2 * time.Second, Deny: fault.DenySet}
	joins := fault.Fault{At: 100 * ms, Kind: fault.Join, Target: "node-3"}
	for name, c := range map[string]struct {
		mode  string
		plan  []fault.Fault
		again bool
	}{
		"an ACL denies it":      {"turned away", []fault.Fault{denied, joins}, true},
		"it crashes":            {"crashes", []fault.Fault{denied, joins}, false},
		"Redis refuses nothing": {"broken", []fault.Fault{joins}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, c.plan...)
			cfg.Storm = 3 * time.Second
			cfg.NodeEnv = append(cfg.NodeEnv, "REAL_TEST_NODE="+c.mode)
			out, events := storm(t, provision(t), cfg)
			newcomer := func(e history.Event) bool { return e.Node == "node-3" }
			spawned, ready := count(events, history.Spawned, newcomer), count(events, history.Ready, newcomer)
			unasked := count(events, history.Exited, newcomer, func(e history.Event) bool { return e.Reason != "asked" })
			if ended := spawned - ready; unasked != ended || c.again != (ready == 1) || c.again != (spawned > 1) || ended == 0 {
				t.Errorf("%d processes, %d ended by themselves, %d ready", spawned, unasked, ready)
			}
			notes := strings.Join(out.Notes, "\n")
			if n := strings.Count(notes, "ended by itself"); n != 1 || strings.Contains(notes, "started again") != c.again {
				t.Errorf("%d notes tell of its end, want 1: %q", n, out.Notes)
			}
		})
	}
}

// After an interrupted run, Redis refuses nothing, because the nodes must release their leases.
func TestInterruptedRefusalEnds(t *testing.T) {
	r := provision(t)
	cfg := config(t, fault.Fault{At: 10 * time.Millisecond, Kind: fault.RedisMemory, For: time.Minute})
	cfg.Storm = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg.Progress = func(p Progress) {
		if p.Fault != "" {
			stop()
		}
	}
	rec := history.NewRecorder()
	if out, err := Run(ctx, r, cfg, rec); err != nil || !out.Interrupted {
		t.Fatalf("Run: %+v, %v, want an interrupted run without an error", out, err)
	}
	if n := count(collect(t, rec), history.FaultEnd); n != 1 {
		t.Errorf("the refusal ended %d times, want once", n)
	}
	if err := r.client.Load().Set(t.Context(), "poll:node:x", "1", 0).Err(); err != nil {
		t.Errorf("a write after the run is answered %v", err)
	}
}
