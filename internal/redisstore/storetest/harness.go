package storetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Store is the store under test.
type Store interface {
	// Do executes one op, at most once.
	Do(ctx context.Context, op *core.Op) core.Answer
	// Look executes an OpLook for the given sessions.
	Look(ctx context.Context, op *core.Op, sessions *core.Sessions) core.Answer
	// Bootstrap begins an epoch without quarantine, unless a lease or a heartbeat lives.
	Bootstrap(ctx context.Context, leases ...string) error
}

// Harness is a store and its Redis or model. Its methods fail the test instead of returning errors.
type Harness interface {
	// Store returns the store, with the quarantine given to New.
	Store() Store
	// Lease reads the lease's key: its owner, "" for none, and its remaining TTL.
	Lease(id string) (owner string, ttl time.Duration)
	// SetLease writes the lease's key directly.
	SetLease(id, owner string, ttl time.Duration)
	// DeleteLease and DeleteFence delete a key directly.
	DeleteLease(id string)
	DeleteFence(id string)
	// SpoilLease and SpoilFence replace a key by one of another type.
	SpoilLease(id string)
	SpoilFence(id string)
	// Flush deletes all data of the running Redis.
	Flush()
	// Restart restarts Redis, with or without its data.
	Restart(empty bool)
	// ForgetScripts makes Redis forget loaded scripts.
	ForgetScripts()
	// ReadOnly makes Redis refuse writes until ReadOnly(false).
	ReadOnly(on bool)
	// Loading restarts Redis with its data so slowly that it refuses everything for at least a second.
	Loading()
	// Advance lets at least d pass on Redis' clock.
	Advance(d time.Duration)
	// Notices returns the notices since the last call. It waits for at least n notices.
	Notices(n int) []core.Notice
}

// New makes a harness on an empty Redis, which t cleans up.
type New func(t *testing.T, quarantine time.Duration) Harness

// A test may wait for short, but never for long.
const (
	long  = 30 * time.Second
	short = 60 * time.Millisecond
)

// check is one test. Unless fresh, it begins in an epoch without quarantine.
type check struct {
	name       string
	fresh      bool
	quarantine time.Duration // 0: long
	run        func(e *env)
}

func (c *check) play(t *testing.T, start New) {
	e := &env{T: t, h: start(t, cmp.Or(c.quarantine, long))}
	e.s = e.h.Store()
	if !c.fresh {
		e.bootstrap()
	}
	c.run(e)
}

// env is the environment of a check. epoch is the epoch that its instances know.
type env struct {
	*testing.T
	h     Harness
	s     Store
	epoch string
}

func (e *env) bootstrap() {
	e.Helper()
	if err := e.s.Bootstrap(e.Context()); err != nil {
		e.Fatalf("Bootstrap: %v", err)
	}
	e.learn()
}

func (e *env) learn() core.Answer {
	e.Helper()
	a := e.do(core.Op{Kind: core.OpObserve})
	e.epoch = a.Epoch
	return a
}

// do executes op in the known epoch, unless op names another, and expects an answer.
func (e *env) do(op core.Op) core.Answer {
	e.Helper()
	a := e.try(op)
	if a.Failure != core.FailNone {
		e.Fatalf("op of kind %d failed: %s", op.Kind, a.Text)
	}
	if a.Epoch == "" || a.RedisNow == 0 {
		e.Fatalf("op of kind %d was answered without epoch (%q) or time (%d)", op.Kind, a.Epoch, a.RedisNow)
	}
	return a
}

func (e *env) try(op core.Op) core.Answer {
	e.Helper()
	op.Seq = 42
	if op.Epoch == "" {
		op.Epoch = e.epoch
	}
	if op.TTL == 0 {
		op.TTL = int64(long)
	}
	a := e.s.Do(e.Context(), &op)
	if a.Seq != op.Seq {
		e.Fatalf("Answer.Seq = %d, want that of the op, %d", a.Seq, op.Seq)
	}
	if len(a.Results) != len(op.Items) {
		e.Fatalf("%d results for %d items", len(a.Results), len(op.Items))
	}
	return a
}

func (e *env) want(op core.Op, outcomes ...core.Outcome) []core.Result {
	e.Helper()
	a := e.do(op)
	if a.Stale {
		e.Fatalf("op of kind %d was void: epoch %q, known %q", op.Kind, a.Epoch, e.epoch)
	}
	for i, want := range outcomes {
		if a.Results[i].Outcome != want {
			e.Fatalf("op of kind %d, item %q: outcome %d, want %d", op.Kind, op.Items[i].ID, a.Results[i].Outcome, want)
		}
	}
	return a.Results
}

func (e *env) acquire(owner, id string, outcome core.Outcome) int64 {
	e.Helper()
	r := e.want(core.Op{Kind: core.OpAcquire, Owner: owner, Items: items(id)}, outcome)[0]
	if r.Fence <= 0 {
		e.Fatalf("acquire %q: fence %d, want a positive one", id, r.Fence)
	}
	return r.Fence
}

func (e *env) owned(id, owner string) {
	e.Helper()
	if got, _ := e.h.Lease(id); got != owner {
		e.Fatalf("lease %q is held by %q, want %q", id, got, owner)
	}
}

func (e *env) lasts(id string, least, most time.Duration) {
	e.Helper()
	if _, ttl := e.h.Lease(id); ttl <= least || ttl > most {
		e.Fatalf("lease %q lives for %v, want more than %v and at most %v", id, ttl, least, most)
	}
}

func items(ids ...string) []core.Item {
	out := make([]core.Item, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	return out
}

func term(id string, fence int64) []core.Item { return []core.Item{{ID: id, Fence: fence}} }

// held expects a result to name a holder and its remaining time.
func (e *env) held(r core.Result, owner string) {
	e.Helper()
	if r.Owner != owner {
		e.Fatalf("result names %q as owner, want %q", r.Owner, owner)
	}
	if r.PTTL <= 0 || r.PTTL > int64(long) {
		e.Fatalf("result says a remaining life of %v, want one in (0, %v]", time.Duration(r.PTTL), long)
	}
}
