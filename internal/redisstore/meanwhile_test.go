package redisstore_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// before calls do once, before the first command of this name that has at least this many words.
type before struct {
	name  string
	words int
	do    func()
}

func (b *before) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if do := b.do; do != nil && cmd.Name() == b.name && len(cmd.Args()) >= b.words {
			b.do = nil
			do()
		}
		return next(ctx, cmd)
	}
}

// observe reads as an instance that knows no epoch.
func observe(t *testing.T, s *redisstore.Store) core.Answer {
	t.Helper()
	a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone {
		t.Fatal(a.Text)
	}
	return a
}

// Bootstrap does not shorten a quarantine that begins while it runs.
func TestBootstrapMeanwhile(t *testing.T) { // G1
	srv := redistest.Start(t)
	other := newStore(t, srv.Client(), redisstore.Options{})
	hook := &before{name: "evalsha", do: func() { observe(t, other) }}
	s := newStore(t, srv.Client(), redisstore.Options{Hooks: []redis.Hook{hook}})
	if err := s.Bootstrap(t.Context()); !errors.Is(err, redisstore.ErrInUse) {
		t.Errorf("Bootstrap: %v, want ErrInUse", err)
	}
	if a := observe(t, other); a.Quarantine == 0 {
		t.Error("the quarantine is over")
	}
}

// Bootstrap replaces an epoch whose record is lost. Otherwise the next request would begin an epoch with a quarantine.
func TestBootstrapWithoutRecord(t *testing.T) { // G9
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{})
	if err := s.Bootstrap(t.Context()); err != nil || observe(t, s).Epoch != epoch {
		t.Errorf("a second time: %v, and the epoch is another", err)
	}
	for _, spoil := range [][]any{{"DEL", "poll:epoch:group"}, {"HSET", "poll:epoch:group", "epoch", "another 1"}} {
		srv.Do(spoil...)
		if err := s.Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := observe(t, s); a.Quarantine != 0 {
			t.Errorf("after %v: a quarantine of %v", spoil, time.Duration(a.Quarantine))
		}
	}
}

// SetQuarantine changes nothing if the epoch has ended meanwhile, because the next epoch may have a longer quarantine.
func TestSetQuarantineMeanwhile(t *testing.T) { // G1
	srv := redistest.Start(t)
	other, epoch := bootstrapped(t, srv.Client(), redisstore.Options{Quarantine: 10 * time.Second})
	var after core.Answer
	// The script that reads the epoch has one word less than the one that changes it.
	hook := &before{name: "evalsha", words: 8, do: func() {
		after = other.Do(t.Context(), &core.Op{Kind: core.OpSupersede, Epoch: epoch, Owner: "a", Quarantine: int64(40 * time.Second)})
	}}
	s := newStore(t, srv.Client(), redisstore.Options{Quarantine: 10 * time.Second, Hooks: []redis.Hook{hook}})
	if _, err := s.SetQuarantine(t.Context(), 20*time.Second); err == nil {
		t.Error("SetQuarantine says that it has changed what it did not know")
	}
	if a := observe(t, other); a.Epoch != after.Epoch || a.Group != int64(40*time.Second) {
		t.Errorf("the group has agreed on %v in %q, want 40s in %q", time.Duration(a.Group), a.Epoch, after.Epoch)
	}
}

// A passed lease belongs to its heir at once, so nobody can acquire it in between. Leases of other owners do not change.
func TestPass(t *testing.T) { // G10
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{})
	s.Do(t.Context(), acquire(epoch, "a", "x", "y"))
	s.Do(t.Context(), acquire(epoch, "c", "z"))
	for _, tt := range []struct {
		heir, id string
		passed   []string
		owner    any
	}{{"b", "x", []string{"x"}, "b"}, {"", "y", []string{"y"}, nil}, {"b", "z", []string{}, "c"}} {
		got, err := s.Pass(t.Context(), "a", tt.heir, 20*time.Second, tt.id)
		if err != nil || !slices.Equal(got, tt.passed) || srv.Do("GET", "poll:lease:"+tt.id) != tt.owner {
			t.Errorf("%s to %q: %v, %v; it is %v's", tt.id, tt.heir, got, err, srv.Do("GET", "poll:lease:"+tt.id))
		}
	}
}
