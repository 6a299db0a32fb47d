package storetest

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// voidable returns the ops that another epoch makes void. a holds x under fence.
func voidable(fence int64) []core.Op {
	return []core.Op{
		{Kind: core.OpAcquire, Owner: "a", Items: items("x", "free")},
		{Kind: core.OpRenew, Owner: "a", Items: items("x")},
		{Kind: core.OpReassert, Owner: "b", Items: term("x", fence+1)},
		{Kind: core.OpRelease, Owner: "a", Items: term("x", fence)},
		{Kind: core.OpBeat, Owner: "a"},
		{Kind: core.OpLeave, Owner: "alive"},
	}
}

var epochChecks = []check{
	{name: "the first contact begins a quarantine (G9)", fresh: true, run: func(e *env) {
		a := e.do(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x")})
		if !a.Stale || a.Results[0].Outcome != core.OutUnknown {
			e.Fatalf("an acquire without an epoch was answered %+v", a)
		}
		if a.Quarantine <= int64(long/2) || a.Quarantine > int64(long) {
			e.Fatalf("quarantine %v, want %v less what has passed", time.Duration(a.Quarantine), long)
		}
		e.epoch = a.Epoch
		e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x")}, core.OutQuarantine)
		e.owned("x", "")
	}},
	{name: "in quarantine nothing is adopted, and what is held is said (G9)", fresh: true, run: func(e *env) {
		e.learn()
		e.h.SetLease("mine", "a", long/3)
		e.h.SetLease("other", "b", long/3)
		r := e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("mine", "other")},
			core.OutQuarantine, core.OutHeld)
		e.held(r[1], "b")
		e.lasts("mine", 0, long/3)
	}},
	{name: "after the quarantine leases are granted", fresh: true, quarantine: short, run: func(e *env) {
		before := e.learn()
		e.h.Advance(short)
		e.acquire("a", "x", core.OutGranted)
		if after := e.learn(); after.Epoch != before.Epoch || after.Quarantine != 0 {
			e.Fatalf("epoch %q became %q, quarantine %d", before.Epoch, after.Epoch, after.Quarantine)
		}
	}},
	{name: "in another epoch an op does nothing (G9)", run: func(e *env) {
		fence := e.acquire("a", "x", core.OutGranted)
		e.h.SetLease("x", "a", long/3)
		e.do(core.Op{Kind: core.OpBeat, Owner: "alive"})
		for _, op := range voidable(fence) {
			op.Epoch = "0000000000000000000000000000000000000000 1"
			a := e.do(op)
			if !a.Stale || a.Epoch != e.epoch {
				e.Fatalf("op of kind %d: stale %v, epoch %q, want true and %q", op.Kind, a.Stale, a.Epoch, e.epoch)
			}
			for _, r := range a.Results {
				if r != (core.Result{}) {
					e.Fatalf("op of kind %d in another epoch has the result %+v", op.Kind, r)
				}
			}
		}
		e.owned("x", "a")
		e.lasts("x", 0, long/3)
		e.owned("free", "")
		e.want(core.Op{Kind: core.OpNodes, Items: items("alive", "a")}, core.OutAlive, core.OutGone)
	}},
	{name: "a flush is a loss (G9)", run: func(e *env) { e.loses(e.h.Flush, true) }},
	{name: "an empty restart is a loss (G9)", run: func(e *env) { e.loses(func() { e.h.Restart(true) }, true) }},
	{name: "a restart with data may be a loss (G9)", run: func(e *env) { e.loses(func() { e.h.Restart(false) }, false) }},
	{name: "fences increase over a loss of everything (G3)", quarantine: short, run: func(e *env) {
		first := e.acquire("a", "x", core.OutGranted)
		e.h.Restart(true)
		e.learn()
		e.h.Advance(short)
		if second := e.acquire("b", "x", core.OutGranted); second <= first {
			e.Fatalf("fence %d after %d", second, first)
		}
	}},
}

// loses expects a loss of data to void the requests in flight and to begin a quarantine.
func (e *env) loses(lose func(), all bool) {
	e.Helper()
	fence := e.acquire("a", "x", core.OutGranted)
	before := e.epoch
	lose()
	for _, op := range voidable(fence) {
		op.Epoch = before
		a := e.do(op)
		if !a.Stale || a.Epoch == before || a.Quarantine <= 0 {
			e.Fatalf("after the loss an op of kind %d was answered %+v", op.Kind, a)
		}
		e.epoch = a.Epoch
	}
	owner := "a"
	if all {
		owner = ""
	}
	e.owned("x", owner)
	e.want(core.Op{Kind: core.OpAcquire, Owner: "b", Items: items("y")}, core.OutQuarantine)
	if again := e.learn(); again.Epoch == before {
		e.Fatalf("the epoch is still %q", before)
	}
}

var reassertChecks = []check{
	{name: "restores a term (G9)", run: func(e *env) {
		fence := e.acquire("a", "x", core.OutGranted)
		e.h.Flush()
		e.learn()
		op := core.Op{Kind: core.OpReassert, Owner: "a", Items: term("x", fence)}
		e.want(op, core.OutReasserted)
		e.owned("x", "a")
		e.lasts("x", long/2, long)
		e.want(op, core.OutReasserted) // a repetition changes nothing
		e.want(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")}, core.OutRenewed)
		// The fence is restored too, so only this term can be released.
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", fence-1)}, core.OutLost)
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", fence)}, core.OutReleased)
	}},
	{name: "replaces a lower fence, never a higher one (G1, G3)", fresh: true, run: func(e *env) {
		e.learn()
		e.want(core.Op{Kind: core.OpReassert, Owner: "old", Items: term("x", 5)}, core.OutReasserted)
		e.want(core.Op{Kind: core.OpReassert, Owner: "new", Items: term("x", 7)}, core.OutReasserted)
		e.owned("x", "new")
		r := e.want(core.Op{Kind: core.OpReassert, Owner: "old", Items: term("x", 5)}, core.OutSuperseded)
		e.held(r[0], "new")
		e.owned("x", "new")
	}},
	{name: "not outside a quarantine (G1)", run: func(e *env) {
		e.want(core.Op{Kind: core.OpReassert, Owner: "a", Items: term("x", 1<<52)}, core.OutClosed)
		e.owned("x", "")
		fence := e.acquire("b", "y", core.OutGranted)
		e.want(core.Op{Kind: core.OpReassert, Owner: "a", Items: term("y", fence+1)}, core.OutClosed)
		e.owned("y", "b")
	}},
	{name: "the next grant is above what was restored (G3)", fresh: true, quarantine: 30 * short, run: func(e *env) {
		fence := e.learn().RedisNow + int64(time.Hour/time.Microsecond)
		op := core.Op{Kind: core.OpReassert, Owner: "a", TTL: int64(short), Items: term("x", fence)}
		e.want(op, core.OutReasserted)
		e.h.Advance(30 * short)
		if next := e.acquire("b", "x", core.OutGranted); next != fence+1 {
			e.Fatalf("fence %d after a restored one of %d", next, fence)
		}
	}},
	{name: "a key of another type is left alone", fresh: true, run: func(e *env) {
		e.learn()
		e.h.SpoilLease("x")
		e.h.SpoilFence("y")
		e.want(core.Op{Kind: core.OpReassert, Owner: "a", Items: []core.Item{{ID: "x", Fence: 1}, {ID: "y", Fence: 1}}},
			core.OutWrongType, core.OutWrongType)
		e.owned("y", "")
	}},
}

var failureChecks = []check{
	{name: "forgotten scripts are loaded again", run: func(e *env) {
		fence := e.acquire("a", "x", core.OutGranted)
		e.h.ForgetScripts()
		e.want(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")}, core.OutRenewed)
		e.h.ForgetScripts()
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", fence)}, core.OutReleased)
	}},
	{name: "read-only refuses, and still answers reads (G9)", run: func(e *env) {
		e.acquire("a", "x", core.OutGranted)
		e.h.ReadOnly(true)
		e.refused(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")})
		e.refused(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("y")})
		e.refused(core.Op{Kind: core.OpBeat, Owner: "a"})
		r := e.want(core.Op{Kind: core.OpObserve, Items: items("x", "y")}, core.OutHeld, core.OutFree)
		e.held(r[0], "a")
		e.h.ReadOnly(false)
		e.want(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")}, core.OutRenewed)
	}},
	{name: "loading refuses (G9)", run: func(e *env) {
		e.acquire("a", "x", core.OutGranted)
		e.h.Loading()
		e.refused(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")})
		e.refused(core.Op{Kind: core.OpObserve, Items: items("x")})
	}},
	{name: "an ended context is an unknown outcome", run: func(e *env) {
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		op := core.Op{Kind: core.OpAcquire, Epoch: e.epoch, Owner: "a", TTL: int64(long), Items: items("x")}
		if a := e.s.Do(ctx, &op); a.Failure != core.FailUnknown || len(a.Results) != 1 || a.Text == "" {
			e.Fatalf("%+v, want FailUnknown, a text and one empty result", a)
		}
	}},
	{name: "names that would forge keys or notices are refused", run: func(e *env) {
		for _, id := range []string{"", "a b", "a\nb", "a\x00", "\xff"} {
			e.refused(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x", id)})
			e.refused(core.Op{Kind: core.OpBeat, Owner: id})
		}
		e.refused(core.Op{Kind: core.OpBeat, Owner: "-"})
		e.owned("x", "")
	}},
	{name: "a TTL of no whole millisecond is refused", run: func(e *env) {
		for _, ttl := range []time.Duration{-time.Second, time.Microsecond, time.Millisecond + 1} {
			e.refused(core.Op{Kind: core.OpAcquire, Owner: "a", TTL: int64(ttl), Items: items("x")})
		}
		e.owned("x", "")
	}},
}

func (e *env) refused(op core.Op) {
	e.Helper()
	if a := e.try(op); a.Failure != core.FailRefused || a.Text == "" {
		e.Fatalf("op of kind %d was answered %+v, want FailRefused and a text", op.Kind, a)
	}
}

var bootstrapChecks = []check{
	{name: "grants at once", fresh: true, run: func(e *env) {
		e.bootstrap()
		e.acquire("a", "x", core.OutGranted)
	}},
	{name: "ends the quarantine of an unused Redis", fresh: true, run: func(e *env) {
		e.learn()
		e.bootstrap()
		e.acquire("a", "x", core.OutGranted)
	}},
	{name: "a second time changes nothing", run: func(e *env) {
		before := e.epoch
		if e.bootstrap(); e.epoch != before {
			e.Fatalf("epoch %q became %q", before, e.epoch)
		}
	}},
	{name: "is refused while a lease lives", fresh: true, run: func(e *env) {
		e.learn()
		e.h.SetLease("x", "a", long)
		if err := e.s.Bootstrap(e.Context()); err == nil {
			e.Fatal("Bootstrap ended a quarantine while a lease lived")
		}
		e.want(core.Op{Kind: core.OpAcquire, Owner: "b", Items: items("y")}, core.OutQuarantine)
	}},
	{name: "is refused while a heartbeat lives", fresh: true, run: func(e *env) {
		e.learn()
		e.do(core.Op{Kind: core.OpBeat, Owner: "a"})
		if err := e.s.Bootstrap(e.Context()); err == nil {
			e.Fatal("Bootstrap ended a quarantine while a heartbeat lived")
		}
	}},
}
