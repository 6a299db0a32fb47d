package storetest

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

var observeChecks = []check{
	{name: "says who holds what", run: func(e *env) {
		e.acquire("a", "x", core.OutGranted)
		e.h.SpoilLease("z")
		r := e.want(core.Op{Kind: core.OpObserve, Items: items("x", "y", "z")},
			core.OutHeld, core.OutFree, core.OutWrongType)
		e.held(r[0], "a")
	}},
	{name: "changes nothing", run: func(e *env) {
		e.h.SetLease("x", "a", long/3)
		e.want(core.Op{Kind: core.OpObserve, Owner: "a", Items: items("x", "y")}, core.OutHeld, core.OutFree)
		e.lasts("x", 0, long/3)
		e.owned("y", "")
	}},
	{name: "without items says epoch and time", run: func(e *env) {
		a := e.learn()
		e.h.Advance(short)
		b := e.learn()
		if passed := b.RedisNow - a.RedisNow; passed < short.Microseconds() {
			e.Fatalf("Redis' clock advanced by %d µs in at least %v", passed, short)
		}
		if a.Epoch != b.Epoch || a.Quarantine != 0 {
			e.Fatalf("epoch %q became %q, quarantine %d", a.Epoch, b.Epoch, a.Quarantine)
		}
	}},
	{name: "a lease without life of its own is held for an unknown time", run: func(e *env) {
		e.h.SetLease("x", "a", 0)
		r := e.want(core.Op{Kind: core.OpObserve, Items: items("x")}, core.OutHeld)
		if r[0].PTTL != 0 {
			e.Fatalf("remaining life %v, want 0 for unknown", time.Duration(r[0].PTTL))
		}
	}},
	{name: "a look shows every owner and heartbeat", run: func(e *env) {
		var ids []string
		for i := range 2100 {
			ids = append(ids, fmt.Sprintf("s%04d", i))
		}
		sessions := core.NewSessions(ids)
		for owner := range 3 {
			name := fmt.Sprint("n", owner)
			e.do(core.Op{Kind: core.OpBeat, Owner: name})
			for start := 300 * owner; start < len(ids); start += 900 {
				op := core.Op{Kind: core.OpAcquire, Owner: name, Items: items(ids[start : start+150]...)}
				e.want(op, core.OutGranted)
			}
		}
		a := e.s.Look(e.Context(), &core.Op{Kind: core.OpLook, Seq: 7, Epoch: e.epoch}, sessions)
		if a.Failure != core.FailNone || a.Seq != 7 || a.Epoch != e.epoch || a.RedisNow == 0 || a.Look == nil {
			e.Fatalf("look: %+v", a)
		}
		for i, owner := range a.Look.Owners {
			want := ""
			if i%300 < 150 {
				want = fmt.Sprint("n", i/300%3)
			}
			if owner != want {
				e.Fatalf("session %d is owned by %q, want %q", i, owner, want)
			}
		}
		if len(a.Look.Nodes) != 3 || a.Look.Sessions != sessions {
			e.Fatalf("heartbeats: %v", a.Look.Nodes)
		}
		for _, n := range a.Look.Nodes {
			if n.PTTL <= int64(long/2) || n.PTTL > int64(long) {
				e.Fatalf("heartbeat of %s lives for %v", n.ID, time.Duration(n.PTTL))
			}
		}
	}},
	{name: "a look of nothing", run: func(e *env) {
		a := e.s.Look(e.Context(), &core.Op{Kind: core.OpLook, Epoch: e.epoch}, core.NewSessions(nil))
		if a.Failure != core.FailNone || a.Epoch != e.epoch || len(a.Look.Owners) != 0 || len(a.Look.Nodes) != 0 {
			e.Fatalf("look: %+v", a)
		}
	}},
	{name: "a look after a loss says the present epoch", run: func(e *env) {
		e.h.Flush()
		a := e.s.Look(e.Context(), &core.Op{Kind: core.OpLook, Epoch: e.epoch}, core.NewSessions([]string{"x"}))
		if a.Failure != core.FailNone || a.Stale || a.Epoch == e.epoch || a.Quarantine <= 0 || a.Look.Owners[0] != "" {
			e.Fatalf("look: %+v", a)
		}
	}},
}

var nodeChecks = []check{
	{name: "a heartbeat is seen, refreshed and expires", run: func(e *env) {
		nodes := core.Op{Kind: core.OpNodes, Items: items("a", "b")}
		e.do(core.Op{Kind: core.OpBeat, Owner: "a", TTL: int64(short)})
		e.do(core.Op{Kind: core.OpBeat, Owner: "a"})
		r := e.want(nodes, core.OutAlive, core.OutGone)
		if r[0].PTTL <= int64(long/2) {
			e.Fatalf("heartbeat lives for %v after a beat of %v", time.Duration(r[0].PTTL), long)
		}
		e.do(core.Op{Kind: core.OpBeat, Owner: "b", TTL: int64(short)})
		e.h.Advance(short)
		e.want(nodes, core.OutAlive, core.OutGone)
	}},
	{name: "only the first beat is a notice", run: func(e *env) {
		e.do(core.Op{Kind: core.OpBeat, Owner: "a"})
		e.do(core.Op{Kind: core.OpBeat, Owner: "a"})
		e.notice(core.Notice{Kind: core.NoticeJoined, From: "a"})
		e.do(core.Op{Kind: core.OpBeat, Owner: "b"})
		e.notice(core.Notice{Kind: core.NoticeJoined, From: "b"})
	}},
	{name: "leaving deletes the heartbeat", run: func(e *env) {
		e.do(core.Op{Kind: core.OpBeat, Owner: "a"})
		e.h.Notices(2)
		e.do(core.Op{Kind: core.OpLeave, Owner: "a"})
		e.want(core.Op{Kind: core.OpNodes, Items: items("a")}, core.OutGone)
		e.notice(core.Notice{Kind: core.NoticeLeft, From: "a"})
	}},
	{name: "asking is a notice", run: func(e *env) {
		a := e.try(core.Op{Kind: core.OpAsk, Owner: "a", Items: []core.Item{{ID: "x", Peer: "b"}, {ID: "y", Peer: "b"}}})
		if a.Failure != core.FailNone {
			e.Fatalf("ask: %s", a.Text)
		}
		e.notice(core.Notice{Kind: core.NoticeAsked, From: "a", IDs: []string{"x", "y"}, Peers: []string{"b"}})
	}},
}
