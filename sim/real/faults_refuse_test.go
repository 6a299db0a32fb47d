package real

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// touch reads a key, and then writes it: a script that is refused at its first write has read.
const touch = `redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])`

// Redis refuses what it should in its own words, answers the rest, and refuses nothing any more when the fault is over.
func TestRefusals(t *testing.T) {
	const lease, fence = "poll:lease:x", "{poll:lease:x}:fence"
	r := provision(t)
	nodes := redis.NewClient(&redis.Options{Addr: r.url.Addr, DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = nodes.Close() }()
	ctx := t.Context()
	for _, c := range []struct {
		kind    fault.Kind
		deny    string
		key     string // what is refused
		words   string // and how
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

// A node that joins while an ACL denies what it needs is started again until it is ready. One that ends for anything else stays dead.
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

// A run that is interrupted leaves no Redis behind that refuses: its nodes have leases to give back.
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
