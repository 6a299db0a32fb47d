package redisstore_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// replicated is a master with a replica, and a store that counts acknowledgements.
type replicated struct {
	*testing.T
	master, replica *redistest.Server
	store           *redisstore.Store
	epoch           string
}

const replicatedTTL = time.Minute

func newReplicated(t *testing.T, opts ...redistest.Option) *replicated {
	t.Helper()
	r := &replicated{T: t, master: redistest.Start(t, opts...), replica: redistest.Start(t)}
	r.follow()
	store, err := redisstore.New(r.master.Client(), redisstore.Options{Quarantine: replicatedTTL, Replicas: 1, OpTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r.store = store
	if err := store.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.learn()
	return r
}

// follow attaches the replica and waits for it.
func (r *replicated) follow() {
	r.Helper()
	host, port, _ := net.SplitHostPort(r.master.Addr())
	r.replica.Do("REPLICAOF", host, port)
	r.await("the replica is attached", func() bool { return strings.Contains(r.info(), "state=online") })
}

func (r *replicated) info() string { return r.master.Do("INFO", "replication").(string) }

// caughtUp waits until the replica has acknowledged all data.
func (r *replicated) caughtUp() {
	r.Helper()
	r.await("the replica has all", func() bool {
		_, offset, _ := strings.Cut(r.info(), "master_repl_offset:")
		offset, _, _ = strings.Cut(offset, "\r")
		return strings.Contains(r.info(), ",offset="+offset+",")
	})
}

func (r *replicated) await(what string, so func() bool) {
	r.Helper()
	redistest.Eventually(r, what, so)
}

func (r *replicated) learn() core.Answer {
	r.Helper()
	a := r.store.Do(context.Background(), &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone {
		r.Fatal(a.Text)
	}
	r.epoch = a.Epoch
	return a
}

// do executes an op of this kind in the known epoch.
func (r *replicated) do(kind core.OpKind, confirm int64) *core.Answer {
	r.Helper()
	op := &core.Op{Kind: kind, Epoch: r.epoch, Owner: "a", TTL: int64(replicatedTTL), Confirm: confirm, Items: []core.Item{{ID: "x"}}}
	a := r.store.Do(context.Background(), op)
	return a.Counted(op)
}

// A write that only the master has does not count. It counts once the replica has it. At each first call, Redis does not know the script.
func TestAcknowledged(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	if a := r.do(core.OpAcquire, 1); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutGranted {
		t.Fatalf("acquire: %+v", a)
	}
	if a := r.do(core.OpRenew, 1); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutRenewed {
		t.Fatalf("renew: %+v", a)
	}
	r.caughtUp()
	r.replica.Freeze()
	for _, kind := range []core.OpKind{core.OpRenew, core.OpAcquire} {
		if a := r.do(kind, 1); a.Failure != core.FailUncounted || a.Text != "0 of 1 replicas acknowledged" {
			t.Errorf("op of kind %d while the replica is frozen: %+v", kind, a)
		}
	}
	r.replica.Thaw()
	if a := r.do(core.OpRenew, 1); a.Failure != core.FailNone {
		t.Errorf("renew after the replica is back: %+v", a)
	}
	r.master.Do("SCRIPT", "FLUSH")
	if a := r.do(core.OpAcquire, 1); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutAdopted {
		t.Errorf("acquire after the scripts are gone: %+v", a)
	}
}

// A replica that attaches itself begins an epoch with a quarantine, in which owners reassert their leases.
func TestAttachmentBeginsAnEpoch(t *testing.T) { // G1, G9
	t.Parallel()
	r := newReplicated(t)
	granted := r.do(core.OpAcquire, 1)
	if granted.Failure != core.FailNone {
		r.master.Do("DEL", "poll:lease:x") // the host was too busy to acknowledge it in time
		granted = r.do(core.OpAcquire, 1)
	}
	if granted.Failure != core.FailNone {
		t.Fatalf("acquire: %+v", granted)
	}
	before := r.epoch
	r.master.Do("CLIENT", "KILL", "TYPE", "replica")
	r.await("the replica that attached itself again begins an epoch after "+before, func() bool { return r.learn().Epoch != before })
	if a := r.learn(); a.Quarantine <= 0 {
		t.Errorf("the epoch %q has no quarantine", a.Epoch)
	}
	op := &core.Op{Kind: core.OpReassert, Epoch: r.epoch, Owner: "a", TTL: int64(replicatedTTL), Confirm: 1,
		Items: []core.Item{{ID: "x", Fence: granted.Results[0].Fence}}}
	a := r.store.Do(context.Background(), op)
	if c := a.Counted(op); c.Failure != core.FailNone || c.Results[0].Outcome != core.OutReasserted {
		t.Errorf("reassert: %+v", c)
	}
}

// The highest number of acknowledgements that any instance requires is the epoch's number.
func TestHigherNumberCounts(t *testing.T) { // G1
	t.Parallel()
	r := newReplicated(t)
	before := r.epoch
	few, err := redisstore.New(r.master.Client(), redisstore.Options{Quarantine: replicatedTTL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = few.Close() }()
	if a := few.Do(context.Background(), &core.Op{Kind: core.OpObserve}); a.Epoch != before {
		t.Errorf("an instance without replicas made of the epoch %q: %q", before, a.Epoch)
	}
	more, err := redisstore.New(r.master.Client(), redisstore.Options{Quarantine: replicatedTTL, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = more.Close() }()
	a := more.Do(context.Background(), &core.Op{Kind: core.OpObserve})
	if a.Epoch == before || !strings.Contains(a.Epoch, ":2 ") || a.Quarantine <= 0 {
		t.Errorf("an instance with three replicas made of the epoch %q: %q, quarantine %d", before, a.Epoch, a.Quarantine)
	}
}

// Only the operator lowers the number of acknowledgements, in an epoch with a quarantine. SetReplicas refuses while too many replicas
// acknowledge, because two masters could both have a majority of the lower number.
func TestSetReplicas(t *testing.T) { // G1, G9
	t.Parallel()
	r := newReplicated(t)
	with := func(replicas int, hooks ...redis.Hook) *redisstore.Store {
		return newStore(t, r.master.Client(), redisstore.Options{Quarantine: replicatedTTL, Replicas: replicas, Hooks: hooks})
	}
	if a := observe(t, with(3)); !strings.Contains(a.Epoch, ":2 ") {
		t.Fatalf("three replicas: %q", a.Epoch)
	}
	r.do(core.OpRenew, 1) // so that the replica has acknowledged something
	second := redistest.Start(t)
	second.Do("REPLICAOF", "127.0.0.1", portOf(r.master))
	r.await("two replicas acknowledge", func() bool {
		_, err := with(1).Check(t.Context())
		return errors.Is(err, redisstore.ErrReplicas)
	})
	if _, _, err := with(1).SetReplicas(t.Context()); !errors.Is(err, redisstore.ErrReplicas) {
		t.Errorf("lowered while two replicas acknowledge: %v", err)
	}
	for replicas, want := range map[int]error{1: redisstore.ErrReplicas, 2: nil, 3: nil} { // the check of a running instance
		if err := with(replicas).Surplus(t.Context()); !errors.Is(err, want) {
			t.Errorf("two replicas acknowledge and %d are configured: %v, want %v", replicas, err, want)
		}
	}
	second.Do("REPLICAOF", "NO", "ONE")
	r.await("the second replica has ended", func() bool { return !strings.Contains(r.info(), "connected_slaves:2") })
	if err := with(1).Surplus(t.Context()); err != nil {
		t.Errorf("the second replica has ended: %v", err)
	}

	// SetReplicas does not touch an epoch that began meanwhile. The script that reads the epoch has one word less than the change.
	hook := &before{name: "evalsha", words: 8, do: func() {
		r.store.Do(context.Background(), &core.Op{Kind: core.OpSupersede, Epoch: r.learn().Epoch, Owner: "a", Quarantine: int64(replicatedTTL)})
	}}
	if _, _, err := with(1, hook).SetReplicas(t.Context()); err == nil || !strings.Contains(r.learn().Epoch, ":2 ") {
		t.Errorf("lowered in an epoch that it did not know: %v, %q", err, r.epoch)
	}

	high := r.learn().Epoch
	if was, _, err := with(1).SetReplicas(t.Context()); err != nil || was != 2 {
		t.Fatalf("lowered from %d: %v", was, err)
	}
	low := r.learn()
	if low.Epoch == high || !strings.Contains(low.Epoch, ":1 ") || low.Quarantine <= int64(replicatedTTL/2) || low.Group != int64(replicatedTTL) {
		t.Errorf("after %q: %+v", high, low)
	}
	if was, _, err := with(1).SetReplicas(t.Context()); err != nil || was != 1 || r.learn().Epoch != low.Epoch {
		t.Errorf("a second time: %d, %v, %q", was, err, r.epoch)
	}
	if was, _, err := with(3).SetReplicas(t.Context()); err != nil || was != 1 || r.learn().Epoch != low.Epoch {
		t.Errorf("what only instances raise: %d, %v, %q", was, err, r.epoch)
	}
	// An instance with the old setting raises the number again. That costs a quarantine, but no owner.
	if a := observe(t, with(3)); !strings.Contains(a.Epoch, ":2 ") || a.Quarantine == 0 {
		t.Errorf("an instance with three replicas: %+v", a)
	}
	if was, _, err := with(0).SetReplicas(t.Context()); err != nil || was != 2 || strings.Contains(r.plainEpoch(), ":") {
		t.Errorf("to none: %d, %v, %q", was, err, r.plainEpoch())
	}
}

func portOf(s *redistest.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr())
	return port
}

// plainEpoch reads the epoch's key directly, because an instance's request could change the epoch.
func (r *replicated) plainEpoch() string {
	epoch, _ := r.master.Do("GET", "poll:epoch").(string)
	return epoch
}

// More replicas than configured are an error, fewer are a warning.
func TestReplicasAreCompared(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	check := func(replicas int) ([]redisstore.Warning, error) {
		s, err := redisstore.New(r.master.Client(), redisstore.Options{Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		return s.Check(context.Background())
	}
	r.do(core.OpAcquire, 1) // so that the replica has acknowledged something
	if warnings, err := check(1); err != nil || len(warnings) > 0 {
		t.Errorf("as configured: %q, %v", warnings, err)
	}
	if warnings, err := check(2); err != nil || len(warnings) != 1 || !strings.Contains(string(warnings[0]), "1 of 2 replicas") {
		t.Errorf("one too few: %q, %v", warnings, err)
	}
	r.replica = redistest.Start(t)
	r.follow()
	r.await("one too many is refused", func() bool {
		_, err := check(1)
		return errors.Is(err, redisstore.ErrReplicas)
	})
}

// If INFO or WAIT is denied, the store cannot count acknowledgements and says so.
func TestReplicasWithoutRights(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.master.Do("ACL", "SETUSER", "default", "-wait")
	op := &core.Op{Kind: core.OpAcquire, Epoch: r.epoch, Owner: "a", TTL: int64(replicatedTTL), Confirm: 1, Items: []core.Item{{ID: "x"}}}
	if a := r.store.Do(context.Background(), op); a.Failure != core.FailUncounted || !strings.Contains(a.Text, "wait") {
		t.Errorf("without WAIT: %+v", a)
	}
	if err := r.store.Permitted(context.Background(), redisstore.Use{}); !errors.Is(err, redisstore.ErrDenied) ||
		!strings.Contains(err.Error(), "+wait") {
		t.Errorf("Permitted without WAIT: %v", err)
	}
	r.master.Do("ACL", "SETUSER", "default", "+wait", "-info")
	if a := r.store.Do(context.Background(), &core.Op{Kind: core.OpObserve}); a.Failure == core.FailNone || !strings.Contains(a.Text, "INFO") {
		t.Errorf("without INFO: %+v", a)
	}
}

// Without Options.Replicas, an epoch has the form of older versions, and an attached replica costs no quarantine.
func TestEpochWithoutReplicas(t *testing.T) { // G8
	t.Parallel()
	r := &replicated{T: t, master: redistest.Start(t), replica: redistest.Start(t)}
	store, err := redisstore.New(r.master.Client(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r.store = store
	before := r.learn().Epoch
	r.follow()
	run := regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(r.master.Do("INFO", "server").(string))[1]
	if after := r.learn().Epoch; after != before || !strings.HasPrefix(after, run+" ") {
		t.Errorf("the epoch was %q, and is %q after a replica attached itself to run_id %s", before, after, run)
	}
}
