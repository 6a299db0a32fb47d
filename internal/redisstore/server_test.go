package redisstore_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

func newStore(t testing.TB, client redis.UniversalClient, opt redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bootstrapped returns a store on a new server and its epoch.
func bootstrapped(t testing.TB, client redis.UniversalClient, opt redisstore.Options) (*redisstore.Store, string) {
	t.Helper()
	s := newStore(t, client, opt)
	if err := s.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := s.Do(t.Context(), &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone {
		t.Fatal(a.Text)
	}
	return s, a.Epoch
}

func acquire(epoch, owner string, ids ...string) *core.Op {
	op := &core.Op{Kind: core.OpAcquire, Epoch: epoch, Owner: owner, TTL: int64(30 * time.Second)}
	for _, id := range ids {
		op.Items = append(op.Items, core.Item{ID: id})
	}
	return op
}

func client(t *testing.T, opt redis.Options) *redis.Client {
	c := redis.NewClient(&opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCheck(t *testing.T) {
	plain, locked := redistest.Start(t), redistest.Start(t, redistest.Password("secret"))
	slave := redistest.Start(t)
	slave.ReadOnly()
	evicting := redistest.Start(t, redistest.Args("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"))
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	tests := []struct {
		name     string
		client   *redis.Client
		want     error
		warnings int
	}{
		{"plain", plain.Client(), nil, 0},
		{"password given", locked.Client(), nil, 0},
		{"password wanted", client(t, redis.Options{Addr: locked.Addr()}), redisstore.ErrAuth, 0},
		{"password wrong", client(t, redis.Options{Addr: locked.Addr(), Password: "x"}), redisstore.ErrAuth, 0},
		{"replica", slave.Client(), redisstore.ErrReadOnly, 0},
		{"evicting", evicting.Client(), nil, 1},
		{"a web server", client(t, redis.Options{Addr: strings.TrimPrefix(web.URL, "http://")}), redisstore.ErrNotRedis, 0},
		{"nobody", client(t, redis.Options{Addr: "127.0.0.1:1"}), redisstore.ErrUnreachable, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			warnings, err := newStore(t, tt.client, redisstore.Options{OpTimeout: 5 * time.Second}).Check(t.Context())
			if !errors.Is(err, tt.want) || len(warnings) != tt.warnings {
				t.Fatalf("Check: %v, %q; want %v and %d warnings", err, warnings, tt.want, tt.warnings)
			}
		})
	}
}

func TestBootstrapInUse(t *testing.T) {
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{})
	if a := s.Do(t.Context(), acquire(epoch, "a", "x")); a.Failure != core.FailNone {
		t.Fatal(a.Text)
	}
	if err := s.Bootstrap(t.Context()); !errors.Is(err, redisstore.ErrInUse) || !strings.Contains(err.Error(), "poll:lease:x") {
		t.Fatalf("Bootstrap: %v, want ErrInUse and the key that lives", err)
	}
}

func TestForeignEpochKey(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("RPUSH", "poll:epoch", "x")
	s := newStore(t, srv.Client(), redisstore.Options{})
	a := s.Do(t.Context(), acquire("", "a", "x"))
	if a.Failure != core.FailRefused || !strings.Contains(a.Text, "poll:epoch") {
		t.Fatalf("%+v, want FailRefused and the key's name", a)
	}
	if err := s.Bootstrap(t.Context()); err == nil || !strings.Contains(err.Error(), "EpochKey") {
		t.Fatalf("Bootstrap: %v, want what to do", err)
	}
}

func TestSilentServer(t *testing.T) {
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{OpTimeout: 50 * time.Millisecond})
	srv.Freeze()
	t.Cleanup(srv.Thaw)
	// The store's own timeout, the context's deadline or its cancellation ends the attempt.
	deadline, cancel1 := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel1()
	ended, cancel2 := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel2)
	for name, ctx := range map[string]context.Context{"time-out": t.Context(), "deadline": deadline, "ended": ended} {
		start := time.Now()
		if a := s.Do(ctx, acquire(epoch, "a", "x")); a.Failure != core.FailUnknown {
			t.Errorf("%s: %+v, want FailUnknown", name, a)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestFullMemory(t *testing.T) {
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{})
	if a := s.Do(t.Context(), acquire(epoch, "a", "x")); a.Failure != core.FailNone {
		t.Fatal(a.Text)
	}
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	if a := s.Do(t.Context(), acquire(epoch, "a", "y")); a.Failure != core.FailRefused || !strings.HasPrefix(a.Text, "OOM") {
		t.Fatalf("acquire: %+v, want FailRefused for OOM", a)
	}
	renew := acquire(epoch, "a", "x")
	renew.Kind = core.OpRenew
	if a := s.Do(t.Context(), renew); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutRenewed {
		t.Fatalf("renew: %+v, want it to go on in a full memory", a)
	}
}

// Leases need neither INFO nor PUBLISH.
func TestDeniedCommands(t *testing.T) { // G8
	srv := redistest.Start(t)
	srv.Do("ACL", "SETUSER", "poor", "on", ">pw", "~*", "+@all", "-info", "-publish", "resetchannels")
	c := client(t, redis.Options{Addr: srv.Addr(), Username: "poor", Password: "pw"})
	s, epoch := bootstrapped(t, c, redisstore.Options{})
	if warnings, err := s.Check(t.Context()); err != nil || len(warnings) != 1 {
		t.Fatalf("Check: %v, %q; want one warning", err, warnings)
	}
	if !strings.HasPrefix(epoch, "? ") {
		t.Fatalf("epoch %q, want one without run_id", epoch)
	}
	a := s.Do(t.Context(), acquire(epoch, "a", "x"))
	if a.Failure != core.FailNone || a.Results[0].Outcome != core.OutGranted {
		t.Fatalf("acquire: %+v", a)
	}
	srv.Flush()
	if a := s.Do(t.Context(), acquire(epoch, "b", "x")); !a.Stale || a.Quarantine == 0 {
		t.Fatalf("acquire after a flush: %+v, want it void, and a quarantine", a)
	}
}

// If the prefix has a hash tag, fence keys begin like lease keys. A scan must not return them as leases.
func TestTaggedFence(t *testing.T) {
	s, epoch := bootstrapped(t, redistest.Start(t).Client(), redisstore.Options{LeasePrefix: "{p}l:"})
	op := acquire(epoch, "a", "x")
	a := s.Do(t.Context(), op)
	op.Kind, op.Items[0].Fence = core.OpRelease, a.Results[0].Fence
	if a := s.Do(t.Context(), op); a.Failure != core.FailNone || a.Results[0].Outcome != core.OutReleased {
		t.Fatalf("release: %+v", a)
	}
	if err := s.Bootstrap(t.Context()); err != nil {
		t.Fatalf("Bootstrap took a fence for a lease: %v", err)
	}
	if a := s.Do(t.Context(), acquire(epoch, "a", "x:fence")); a.Failure != core.FailRefused {
		t.Fatalf("acquire x:fence: %+v, want FailRefused", a)
	}
}

// Fence keys expire, and every use extends them.
func TestFenceLives(t *testing.T) {
	srv := redistest.Start(t)
	s, epoch := bootstrapped(t, srv.Client(), redisstore.Options{})
	key := "{poll:lease:x}:fence"
	lives := func(after string) {
		t.Helper()
		if ttl := srv.Do("PTTL", key).(int64); ttl <= (redisstore.DefaultFenceTTL - time.Minute).Milliseconds() {
			t.Fatalf("after %s the fence lives for %d ms", after, ttl)
		}
		srv.Do("PEXPIRE", key, 1000)
	}
	op := acquire(epoch, "a", "x")
	fence := s.Do(t.Context(), op).Results[0].Fence
	lives("an acquire")
	op.Kind = core.OpRenew
	s.Do(t.Context(), op)
	lives("a renewal")
	op.Kind, op.Items = core.OpRelease, []core.Item{{ID: "x", Fence: fence}}
	s.Do(t.Context(), op)
	lives("a release")
}
