package election

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

// idle is work that ends at once.
func idle(context.Context, int64) error { return nil }

func TestRunWithoutAFunctionStartsNothing(t *testing.T) {
	_, client := elected(t)
	a := join(t, client, patient("a"))
	fence := a.wait(EventLeadershipAcquired).Fence
	if err := a.Run(t.Context(), nil); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("Run(nil) = %v", err)
	}
	if got, ok := a.Fence(); !ok || got != fence {
		t.Errorf("after Run(nil) the fence is %d, want %d", got, fence)
	}
	if err := a.Run(t.Context(), idle); err != nil {
		t.Errorf("Run after Run(nil) = %v", err)
	}
}

func TestRunLeadsUntilTheFunctionReturnsAlsoAfterItsContext(t *testing.T) {
	_, client := elected(t)
	cfg := patient("a")
	told := renewals(&cfg)
	e, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = e.Run(ctx, func(work context.Context, fence int64) error {
		cancel()
		<-work.Done()
		renewed(t, told)
		if got, ok := e.Fence(); !ok || got != fence {
			t.Errorf("after the end of the context the fence is %d, %v, want %d", got, ok, fence)
		}
		return nil
	})
	if err != nil || e.IsLeader() {
		t.Errorf("Run = %v; leads: %v", err, e.IsLeader())
	}
}

func TestRunReleasesAfterTheFunctionReturned(t *testing.T) {
	t.Parallel()
	_, client := elected(t)
	cfg := patient("a")
	told := renewals(&cfg)
	e, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := (*member)(nil)
	done := errors.New("done")
	err = e.Run(t.Context(), func(ctx context.Context, fence int64) error {
		if got, ok := e.Fence(); !ok || got != fence {
			t.Errorf("fence %d, want %d", got, fence)
		}
		b = join(t, client, patient("b"))
		b.wait(EventElectionFailed)
		renewed(t, told)
		if ctx.Err() != nil || b.IsLeader() || !e.IsLeader() {
			t.Errorf("context: %v; b leads: %v; a leads: %v", context.Cause(ctx), b.IsLeader(), e.IsLeader())
		}
		return done
	})
	if !errors.Is(err, done) {
		t.Errorf("Run = %v", err)
	}
	b.wait(EventLeadershipAcquired)
	over(t, e)
}

// over fails the test unless every later Run says that the member has stopped.
func over(t *testing.T, e *Election) {
	t.Helper()
	for range 3 {
		if err := e.Run(t.Context(), idle); !errors.Is(err, lease.ErrStopped) || !strings.Contains(err.Error(), e.Key()) {
			t.Errorf("Run after the end = %v, want ErrStopped and the key", err)
		}
	}
}

func TestRunOfOneElectionOfAGroupEndsThatOne(t *testing.T) {
	_, client := elected(t)
	g, err := NewGroup(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e, err := g.Election("")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(t.Context(), idle); err != nil {
			t.Errorf("Run = %v", err)
		}
		over(t, e)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRunThatCouldNotStartMayBeTriedAgain(t *testing.T) {
	server := redistest.Start(t, redistest.Password("secret"))
	if err := admin.Bootstrap(t.Context(), server.Client(), patient("")); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	e, err := New(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Run(t.Context(), idle); !errors.Is(err, redisstore.ErrAuth) {
			t.Errorf("Run without the password = %v", err)
		}
	}
	server.Do("CONFIG", "SET", "requirepass", "")
	if err := e.Run(t.Context(), idle); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestRunEndsItsContextWithTheWindowAndComesBack(t *testing.T) {
	t.Parallel()
	server, client := elected(t)
	e, err := New(client, quick("a"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var fences []int64
	var lateness time.Duration
	err = e.Run(ctx, func(ctx context.Context, fence int64) error {
		fences = append(fences, fence)
		if len(fences) == 2 {
			cancel(enough)
			<-ctx.Done()
			return ctx.Err()
		}
		frozen := time.Now()
		server.Freeze()
		defer server.Thaw()
		<-ctx.Done()
		lateness = time.Since(frozen) - time.Second
		if e.IsLeader() || !errors.Is(context.Cause(ctx), lease.ErrLost) {
			t.Errorf("leads: %v, cause %v", e.IsLeader(), context.Cause(ctx))
		}
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("Run = %v", err)
	}
	if len(fences) != 2 || fences[1] <= fences[0] {
		t.Errorf("fences %v", fences)
	}
	if lateness > 2*time.Second { // the window is below 1 s; the limit allows for a busy machine, not for a window without an end
		t.Errorf("the context ended %v after the TTL", lateness)
	}
}

func TestRunTellsAnErrorOfLostWork(t *testing.T) {
	_, client := elected(t)
	e, err := New(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err = e.Run(t.Context(), func(ctx context.Context, _ int64) error {
		client.Del(context.Background(), "election:leader")
		<-ctx.Done()
		return broken
	})
	if !errors.Is(err, broken) || !errors.Is(err, lease.ErrLost) {
		t.Errorf("Run = %v", err)
	}
}

func TestRunTakesUpALeadershipThatStartWon(t *testing.T) {
	_, client := elected(t)
	a := join(t, client, patient("a"))
	fence := a.wait(EventLeadershipAcquired).Fence
	if err := a.Run(t.Context(), func(_ context.Context, got int64) error {
		if got != fence {
			t.Errorf("fence %d, want %d", got, fence)
		}
		if err := a.Run(t.Context(), idle); !errors.Is(err, ErrRunning) {
			t.Errorf("a second Run = %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestStopEndsRun(t *testing.T) {
	_, client := elected(t)
	e, err := New(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- e.Run(t.Context(), func(ctx context.Context, _ int64) error {
			close(begun)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), lease.ErrStopped) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return nil
		})
	}()
	<-begun
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if e.IsLeader() || client.Exists(t.Context(), "election:leader").Val() != 0 {
		t.Error("still leading")
	}
}

func TestWorkThatDoesNotReturnKeepsItsLeadershipUntilItExpires(t *testing.T) {
	t.Parallel()
	_, client := elected(t)
	cfg := patient("a")
	cfg.LeaderTTL, cfg.OpTimeout = 4*time.Second, 2*time.Second // it expires, but not because of a stall
	cfg.DrainTimeout = 50 * time.Millisecond
	e, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	begun, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- e.Run(t.Context(), func(context.Context, int64) error {
			close(begun)
			<-free
			return nil
		})
	}()
	<-begun
	b := join(t, client, quick("b"))
	b.wait(EventElectionFailed)
	var op *lease.OpError
	if err := e.Stop(); !errors.As(err, &op) || op.Op != "stop" || op.Name != e.Key() || !op.Unknown {
		t.Errorf("Stop = %v", err)
	}
	if b.IsLeader() {
		t.Error("handed over while the work was running")
	}
	b.wait(EventLeadershipAcquired)
	close(free)
	if err := <-ended; !errors.As(err, &op) { // the error of Stop
		t.Errorf("Run = %v", err)
	}
}

func TestRunGivesBackWhenTheFunctionPanics(t *testing.T) {
	_, client := elected(t)
	e, err := New(client, patient("a"))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if r := recover(); r != "work" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = e.Run(t.Context(), func(context.Context, int64) error { panic("work") })
	}()
	if client.Exists(t.Context(), "election:leader").Val() != 0 {
		t.Error("the leader key is still there")
	}
}
