package storetest

import (
	"slices"
	"strconv"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

var acquireChecks = []check{
	{name: "free is granted, held is not (G10)", run: func(e *env) {
		e.acquire("a", "x", core.OutGranted)
		e.owned("x", "a")
		e.lasts("x", long/2, long)
		r := e.want(core.Op{Kind: core.OpAcquire, Owner: "b", Items: items("x", "y")}, core.OutHeld, core.OutGranted)
		e.held(r[0], "a")
		e.owned("x", "a")
		e.owned("y", "b")
	}},
	{name: "granted again after the expiry", run: func(e *env) {
		op := core.Op{Kind: core.OpAcquire, Owner: "a", TTL: int64(short), Items: items("x")}
		first := e.want(op, core.OutGranted)[0].Fence
		e.h.Advance(short)
		if second := e.acquire("b", "x", core.OutGranted); second <= first {
			e.Fatalf("fence %d after %d", second, first)
		}
	}},
	{name: "the same owner adopts, as a new term (G3)", run: func(e *env) {
		op := core.Op{Kind: core.OpAcquire, Owner: "a", TTL: int64(long / 3), Items: items("x")}
		first := e.want(op, core.OutGranted)[0].Fence
		second := e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Fence: first, Items: items("x")}, core.OutAdopted)[0].Fence
		if second <= first {
			e.Fatalf("the adoption's fence is %d, not above %d", second, first)
		}
		e.lasts("x", long/3, long)
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", first)}, core.OutLost)
		e.owned("x", "a")
	}},
	{name: "an attempt that is executed late leaves the fence of the term that followed (G3, G9)", run: func(e *env) {
		late := core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x")}
		fence := e.want(late, core.OutGranted)[0].Fence
		if again := e.want(late, core.OutAdopted)[0].Fence; again != fence {
			e.Fatalf("the fence is %d after a late attempt, and was %d", again, fence)
		}
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", fence)}, core.OutReleased)
	}},
	{name: "who has never asked adopts nothing: its ID is used twice (G1)", run: func(e *env) {
		first := e.acquire("a", "x", core.OutGranted)
		fresh := []core.Item{{ID: "x", Fresh: true}, {ID: "y", Fresh: true}}
		r := e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: fresh}, core.OutHeld, core.OutGranted)
		e.held(r[0], "a")
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", first)}, core.OutReleased)
		e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: fresh[:1]}, core.OutGranted)
	}},
	{name: "fences increase over every change (G3)", run: func(e *env) {
		var last int64
		for i := range 50 {
			owner := "n" + strconv.Itoa(i%3)
			fence := e.acquire(owner, "x", core.OutGranted)
			if fence <= last {
				e.Fatalf("term %d has fence %d, not above %d", i, fence, last)
			}
			last = fence
			e.want(core.Op{Kind: core.OpRelease, Owner: owner, Items: term("x", fence)}, core.OutReleased)
		}
	}},
	{name: "a fence is above the one carried (G3)", run: func(e *env) {
		carried := e.acquire("a", "x", core.OutGranted) + int64(time.Hour/time.Microsecond)
		r := e.want(core.Op{Kind: core.OpAcquire, Owner: "b", Fence: carried, Items: items("y")}, core.OutGranted)[0]
		if r.Fence <= carried {
			e.Fatalf("fence %d, carried %d", r.Fence, carried)
		}
		// The next fence is higher although Redis' clock is an hour behind it.
		e.want(core.Op{Kind: core.OpRelease, Owner: "b", Items: term("y", r.Fence)}, core.OutReleased)
		if next := e.acquire("c", "y", core.OutGranted); next != r.Fence+1 {
			e.Fatalf("fence %d after %d", next, r.Fence)
		}
	}},
	{name: "a fence that was deleted does not fall (G3)", run: func(e *env) {
		first := e.acquire("a", "x", core.OutGranted)
		e.h.DeleteLease("x")
		e.h.DeleteFence("x")
		e.h.Advance(time.Millisecond)
		if second := e.acquire("b", "x", core.OutGranted); second <= first {
			e.Fatalf("fence %d after %d", second, first)
		}
	}},
	{name: "one notice names all that were taken", run: func(e *env) {
		e.acquire("b", "held", core.OutGranted)
		e.h.Notices(2)
		e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x", "held", "y")},
			core.OutGranted, core.OutHeld, core.OutGranted)
		e.notice(core.Notice{Kind: core.NoticeTaken, From: "a", IDs: []string{"x", "y"}})
	}},
	{name: "a key of another type is left alone", run: func(e *env) {
		e.h.SpoilLease("x")
		e.h.SpoilFence("y")
		e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x", "y", "z")},
			core.OutWrongType, core.OutWrongType, core.OutGranted)
		e.owned("y", "")
	}},
}

func (e *env) notice(want core.Notice) {
	e.Helper()
	got := e.h.Notices(1)
	if want.Kind != core.NoticeAsked {
		if got = append(got, e.h.Notices(max(0, 2-len(got)))...); len(got) != 2 || got[1].Kind != core.NoticeNumber || got[1].Number <= 0 {
			e.Fatalf("notices %+v, want one and its number", got)
		}
		got = got[:1]
	}
	if len(got) != 1 || got[0].Kind != want.Kind || got[0].From != want.From || !slices.Equal(got[0].IDs, want.IDs) ||
		!slices.Equal(got[0].Peers, want.Peers) {
		e.Fatalf("notices %+v, want one: %+v", got, want)
	}
}

var renewChecks = []check{
	{name: "extends what its owner holds", run: func(e *env) {
		e.h.SetLease("x", "a", long/3)
		e.h.SetLease("y", "a", long/3)
		e.want(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x", "y")}, core.OutRenewed, core.OutRenewed)
		e.lasts("x", long/3, long)
		e.lasts("y", long/3, long)
	}},
	{name: "never extends what another holds (G10)", run: func(e *env) {
		e.h.SetLease("x", "b", long/3)
		r := e.want(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")}, core.OutLost)
		e.held(r[0], "b")
		e.owned("x", "b")
		e.lasts("x", 0, long/3)
	}},
	{name: "never creates (G10)", run: func(e *env) {
		r := e.want(core.Op{Kind: core.OpRenew, Owner: "a", Items: items("x")}, core.OutLost)
		if r[0].Owner != "" {
			e.Fatalf("a free lease is said to be held by %q", r[0].Owner)
		}
		e.owned("x", "")
	}},
	{name: "each item has its own result", run: func(e *env) {
		e.acquire("a", "mine", core.OutGranted)
		e.acquire("b", "other", core.OutGranted)
		e.h.SpoilLease("spoilt")
		op := core.Op{Kind: core.OpRenew, Owner: "a", Items: items("free", "mine", "spoilt", "other", "mine")}
		e.want(op, core.OutLost, core.OutRenewed, core.OutWrongType, core.OutLost, core.OutRenewed)
	}},
	{name: "nothing to renew", run: func(e *env) { e.want(core.Op{Kind: core.OpRenew, Owner: "a"}) }},
}

var releaseChecks = []check{
	{name: "deletes the lease of this term", run: func(e *env) {
		fence := e.acquire("a", "x", core.OutGranted)
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", fence)}, core.OutReleased)
		e.owned("x", "")
	}},
	{name: "not of another owner (G10)", run: func(e *env) {
		fence := e.acquire("a", "x", core.OutGranted)
		r := e.want(core.Op{Kind: core.OpRelease, Owner: "b", Items: term("x", fence)}, core.OutLost)
		e.held(r[0], "a")
		e.owned("x", "a")
	}},
	{name: "not of a later term of the same owner (G3, G10)", run: func(e *env) {
		old := e.acquire("a", "x", core.OutGranted)
		e.h.DeleteLease("x")
		fence := e.acquire("b", "x", core.OutGranted)
		e.want(core.Op{Kind: core.OpRelease, Owner: "b", Items: term("x", fence)}, core.OutReleased)
		e.acquire("a", "x", core.OutGranted)
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", old)}, core.OutLost)
		e.owned("x", "a")
	}},
	{name: "a second time is lost", run: func(e *env) {
		op := core.Op{Kind: core.OpRelease, Owner: "a", Items: term("x", e.acquire("a", "x", core.OutGranted))}
		e.want(op, core.OutReleased)
		if r := e.want(op, core.OutLost); r[0].Owner != "" {
			e.Fatalf("a free lease is said to be held by %q", r[0].Owner)
		}
	}},
	{name: "one notice names all that were freed, with heirs", run: func(e *env) {
		r := e.want(core.Op{Kind: core.OpAcquire, Owner: "a", Items: items("x", "y")}, core.OutGranted, core.OutGranted)
		e.h.Notices(2)
		op := core.Op{Kind: core.OpRelease, Owner: "a", Items: []core.Item{
			{ID: "x", Fence: r[0].Fence, Peer: "b"}, {ID: "none", Fence: 1, Peer: "c"}, {ID: "y", Fence: r[1].Fence}}}
		e.want(op, core.OutReleased, core.OutLost, core.OutReleased)
		e.notice(core.Notice{Kind: core.NoticeFreed, From: "a", IDs: []string{"x", "y"}, Peers: []string{"b", ""}})
	}},
	{name: "of a lease that another program deleted notifies waiting instances (G13)", run: func(e *env) {
		fence := e.acquire("a", "x", core.OutGranted)
		e.h.DeleteLease("x")
		e.h.Notices(2)
		op := core.Op{Kind: core.OpRelease, Owner: "a", Items: []core.Item{{ID: "x", Fence: fence, Peer: "b"}}}
		e.want(op, core.OutLost)
		e.notice(core.Notice{Kind: core.NoticeFreed, From: "a", IDs: []string{"x"}, Peers: []string{"b"}})
	}},
	{name: "a key of another type is left alone", run: func(e *env) {
		e.h.SpoilLease("x")
		fence := e.acquire("a", "y", core.OutGranted)
		e.h.SpoilFence("y")
		e.want(core.Op{Kind: core.OpRelease, Owner: "a", Items: []core.Item{{ID: "x", Fence: 1}, {ID: "y", Fence: fence}}},
			core.OutWrongType, core.OutWrongType)
		e.owned("y", "a")
	}},
}
