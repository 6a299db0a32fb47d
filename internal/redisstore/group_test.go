package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// The first instance sets the group's quarantine, and SetQuarantine changes it.
func TestGroupAgreesOnQuarantine(t *testing.T) { // G1, G9
	srv := redistest.Start(t)
	ten := newStore(t, srv.Client(), redisstore.Options{Quarantine: 10 * time.Second})
	if err := ten.CheckQuarantine(t.Context()); err != nil {
		t.Fatalf("a group of nobody: %v", err)
	}
	if err := ten.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	thirty := newStore(t, srv.Client(), redisstore.Options{Quarantine: 30 * time.Second})
	if err := thirty.CheckQuarantine(t.Context()); !errors.Is(err, redisstore.ErrQuarantineTooShort) {
		t.Fatalf("30 s in a group of 10 s: %v", err)
	}
	one := newStore(t, srv.Client(), redisstore.Options{Quarantine: time.Second})
	if err := one.CheckQuarantine(t.Context()); err != nil {
		t.Fatalf("1 s in a group of 10 s: %v", err)
	}
	before, err := one.SetQuarantine(t.Context(), 30*time.Second)
	if err != nil || before != 10*time.Second {
		t.Fatalf("raised from %v: %v", before, err)
	}
	if err := thirty.CheckQuarantine(t.Context()); err != nil {
		t.Fatalf("30 s in a group of 30 s: %v", err)
	}
	a := ten.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	if a.Group != int64(30*time.Second) || a.Quarantine < int64(29*time.Second) || !a.Operator {
		t.Fatalf("the new epoch: %+v", a)
	}
	// A caller that knows the epoch does not get the quarantine again.
	if again := ten.Do(t.Context(), &core.Op{Kind: core.OpObserve, Epoch: a.Epoch}); again.Group != 0 || again.Epoch != a.Epoch {
		t.Fatalf("%+v", again)
	}
	srv.Flush()
	if lost := ten.Do(t.Context(), &core.Op{Kind: core.OpObserve, Epoch: a.Epoch}); lost.Epoch == a.Epoch || lost.Operator {
		t.Fatalf("after a loss of data: %+v", lost)
	}
}

// Bootstrap refuses any other quarantine than the group's, and its error says how to change it. If a lease is alive, the error names the
// group's quarantine.
func TestBootstrapNamesTheQuarantineThatStands(t *testing.T) {
	srv := redistest.Start(t)
	five := newStore(t, srv.Client(), redisstore.Options{Quarantine: 5 * time.Second})
	for _, begin := range []func() error{
		func() error {
			observe(t, newStore(t, srv.Client(), redisstore.Options{Quarantine: 30 * time.Second}))
			return nil
		},
		func() error {
			return newStore(t, srv.Client(), redisstore.Options{Quarantine: 30 * time.Second}).Bootstrap(t.Context())
		},
	} {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
		err := five.Bootstrap(t.Context())
		if text := fmt.Sprint(err); !errors.Is(err, redisstore.ErrInUse) || !strings.Contains(text, "agreed on 30s") ||
			!strings.Contains(text, "leasectl quarantine 5s") {
			t.Errorf("5 s where 30 s are agreed on: %v", err)
		}
	}
	if a := observe(t, five); a.Group != int64(30*time.Second) || a.Quarantine != 0 {
		t.Errorf("%+v, want the group as it was", a)
	}
	srv.Do("SET", "poll:lease:x", "somebody", "EX", "60")
	if err := five.Bootstrap(t.Context()); !errors.Is(err, redisstore.ErrInUse) || !strings.Contains(err.Error(), "quarantine of 30s") {
		t.Errorf("a lease lives: %v", err)
	}
}

// SetQuarantine refuses a length shorter than the life of a key. A shorter quarantine begins after all earlier grants have expired.
func TestQuarantineIsNotLoweredBelowWhatLives(t *testing.T) { // G1
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{Quarantine: 30 * time.Second})
	if a := s.Do(t.Context(), acquire(epoch, "a", "x")); a.Results[0].Outcome != core.OutGranted {
		t.Fatalf("%+v", a)
	}
	if _, err := s.SetQuarantine(t.Context(), 10*time.Second); !errors.Is(err, redisstore.ErrOutlives) {
		t.Fatalf("a lease of 30 s lives: %v", err)
	}
	srv.Do("PEXPIRE", "poll:lease:x", "9000")
	if before, err := s.SetQuarantine(t.Context(), 10*time.Second); err != nil || before != 30*time.Second {
		t.Fatalf("lowered from %v: %v", before, err)
	}
	if a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve}); a.Group != int64(10*time.Second) || a.Quarantine < int64(29*time.Second) {
		t.Fatalf("group %v, quarantine %v", time.Duration(a.Group), time.Duration(a.Quarantine))
	}
}

// Fields of a later version outlive epochs. If the record is missing or another epoch's, the next request begins an epoch with a record.
func TestRecordOfGroup(t *testing.T) { // G1
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{Quarantine: 30 * time.Second})
	srv.Do("HSET", "poll:epoch:group", "replicas", "2")
	srv.Do("DEL", "poll:epoch")
	lost := s.Do(t.Context(), &core.Op{Kind: core.OpObserve, Epoch: epoch})
	if lost.Epoch == epoch || lost.Group != int64(30*time.Second) {
		t.Fatalf("%+v", lost)
	}
	if got := srv.Do("HGET", "poll:epoch:group", "replicas"); got != "2" {
		t.Fatalf("a later version's field became %v", got)
	}
	if got := srv.Do("HGET", "poll:epoch:group", "epoch"); got != lost.Epoch {
		t.Fatalf("the record belongs to %v, the epoch is %q", got, lost.Epoch)
	}
	srv.Do("DEL", "poll:epoch:group")
	if known := s.Do(t.Context(), &core.Op{Kind: core.OpObserve, Epoch: lost.Epoch}); known.Epoch != lost.Epoch {
		t.Fatalf("who knows the epoch does not ask for its record: %+v", known)
	}
	other := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	if other.Epoch == lost.Epoch || other.Quarantine == 0 {
		t.Fatalf("an epoch without a record was believed: %+v", other)
	}
	srv.Do("HSET", "poll:epoch:group", "epoch", lost.Epoch)
	if last := s.Do(t.Context(), &core.Op{Kind: core.OpObserve}); last.Epoch == other.Epoch || last.Quarantine == 0 {
		t.Fatalf("an epoch with the record of another was believed: %+v", last)
	}
	srv.Do("DEL", "poll:epoch:group")
	srv.Do("SET", "poll:epoch:group", "somebody else's")
	if a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve}); a.Failure == core.FailNone {
		t.Fatalf("%+v", a)
	}
}

// The first instance that supersedes an epoch ends it. Later ones change nothing.
func TestSupersede(t *testing.T) { // G1
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{Quarantine: 30 * time.Second})
	op := &core.Op{Kind: core.OpSupersede, Epoch: epoch, Owner: "a", Quarantine: int64(40 * time.Second)}
	a := s.Do(t.Context(), op)
	if a.Failure != core.FailNone || a.Epoch == epoch || a.Quarantine != int64(40*time.Second) || a.Group != int64(40*time.Second) {
		t.Fatalf("%+v", a)
	}
	if b := s.Do(t.Context(), op); b.Epoch != a.Epoch {
		t.Fatalf("%q was followed by %q", a.Epoch, b.Epoch)
	}
	if g := s.Do(t.Context(), acquire(epoch, "a", "x")); !g.Stale {
		t.Fatalf("an acquisition in the epoch that was ended: %+v", g)
	}
}
