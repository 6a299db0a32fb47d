package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
)

const session = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"

func TestTrustBeginsAtTheSendAndEndsBeforeTheKey(t *testing.T) { // G1
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", false, nil)
		m := g.managerOf()
		if m.IsOwned(session) {
			t.Fatal("owned before it was acquired")
		}
		sent := time.Now()
		ok, err := m.TryAcquire(t.Context(), session)
		if !ok || err != nil {
			t.Fatalf("TryAcquire = %v, %v", ok, err)
		}
		if !m.IsOwned(session) {
			t.Fatal("not owned after TryAcquire")
		}
		until, _ := g.table.get(session).Deadline()
		margin := 300 * time.Millisecond
		if want := sent.Add(30*time.Second - margin + 2*time.Millisecond); until.After(want) {
			t.Errorf("trusted until %v after the send, want at most %v", until.Sub(sent), want.Sub(sent))
		}
		g.fake.set(mute)
		pass(time.Until(until) - time.Millisecond)
		if r.owner(session) != "a" {
			t.Error("the key went before the trust window ended")
		}
		pass(2 * time.Millisecond)
		if m.IsOwned(session) || len(m.OwnedSessions()) != 0 {
			t.Error("believed after the end of the window")
		}
	})
}

func TestFailedRenewalStopsBeliefAtOnceAndSuccessRestoresTheSameTerm(t *testing.T) { // G4
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", false, nil)
		m := g.managerOf()
		if _, err := m.TryAcquire(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		h := g.table.get(session)
		ends, _ := h.Deadline() // as long as the owner trusts it
		pass(time.Second)
		g.fake.set(mute)
		pass(12500 * time.Millisecond) // a renewal after at most 10 s, unanswered 3 s later
		if m.IsOwned(session) || h.Valid() {
			t.Fatal("believed although the renewal was not answered in time")
		}
		info, err := m.Info(t.Context(), session)
		if err != nil || info.State != LeaseStateUncertain {
			t.Fatalf("Info = %+v, %v; want uncertain", info, err)
		}
		if h.Context().Err() != nil {
			t.Error("the hold's context ended although its window is open")
		}
		g.fake.set(nil)
		pass(2 * time.Second)
		if !m.IsOwned(session) || g.table.get(session) != h {
			t.Error("the same term is not restored after Redis answers again")
		}
		failed := g.log.FilterField(zap.String("event", "renewFailed")).All()
		if len(failed) == 0 {
			t.Fatal("no renewFailed entry in the log (FR-020)")
		}
		until, err := time.Parse(time.RFC3339Nano, fmt.Sprint(failed[0].ContextMap()["until"]))
		if err != nil || !until.Equal(ends) {
			t.Errorf("work may go on until %v by the log (%v), and %v by the hold", until, err, ends)
		}
	})
}

func TestLostTermEndsContextWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", true, nil)
		k := g.keeperOf()
		h, err := k.Acquire(t.Context(), "leader")
		if err != nil {
			t.Fatal(err)
		}
		ctx := h.Context()
		until, _ := h.Deadline()
		g.fake.set(mute)
		<-ctx.Done()
		if late := time.Since(until); late > 25*time.Second || !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("ended %v after the window with %v", late, context.Cause(ctx))
		}
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("Release of a lost term = %v, want nil", err)
		}
	})
}

func TestOneHolderAtATime(t *testing.T) { // G1, G3
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		a := newRig(t, r, "a", true, nil).keeperOf()
		b := newRig(t, r, "b", true, nil).keeperOf()
		h, err := a.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		var held *OpError
		if _, err := b.TryAcquire(t.Context(), "job"); !errors.As(err, &held) || !errors.Is(err, ErrHeld) {
			t.Fatalf("the second instance got %v, want an *OpError", err)
		}
		if held.Owner != "a" || time.Until(held.Until) <= 29*time.Second || time.Until(held.Until) > 30*time.Second {
			t.Errorf("OpError says %q, %v", held.Owner, held.Until)
		}
		if _, err := a.TryAcquire(t.Context(), "job"); !errors.Is(err, ErrHeld) {
			t.Errorf("a second caller in the same process got %v, want ErrHeld", err)
		}
		got := make(chan *Lease, 2)
		for _, k := range []*Keeper{a, b} {
			go func() {
				h, err := k.Acquire(t.Context(), "job")
				if err != nil {
					t.Error(err)
				}
				got <- h
			}()
		}
		pass(time.Minute)
		if len(got) != 0 {
			t.Fatal("acquired while another held it")
		}
		start := time.Now()
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-got
		if wait := time.Since(start); wait > 10*time.Millisecond {
			t.Errorf("handed over %v after the release", wait)
		}
		if second.Fence() <= h.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), h.Fence())
		}
		pass(time.Second)
		if len(got) != 0 {
			t.Fatal("two holders")
		}
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := <-got
		if third.Fence() <= second.Fence() {
			t.Errorf("fence %d after %d", third.Fence(), second.Fence())
		}
		if err := third.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCancelledAcquireIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		g.fake.set(func(op *core.Op) (bool, bool) { return op.Kind == core.OpAcquire, true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.keeperOf().Acquire(ctx, "job"); !errors.Is(err, errUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want errUnknown and DeadlineExceeded", err)
		}
		if r.owner("job") != "a" {
			t.Fatal("the fault did not let Redis execute the acquisition")
		}
		g.fake.set(nil)
		pass(31 * time.Second)
		if owner := r.owner("job"); owner != "" {
			t.Errorf("still held by %q", owner)
		}
	})
}

func TestDoReleasesAfterTheFunctionReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		k := g.keeperOf()
		boom := errors.New("boom")
		err := k.Do(t.Context(), "job", func(ctx context.Context, fence int64) error {
			if fence == 0 || ctx.Err() != nil || r.owner("job") != "a" {
				t.Errorf("fence %d, ctx %v, owner %q", fence, ctx.Err(), r.owner("job"))
			}
			return boom
		})
		if !errors.Is(err, boom) || errors.Is(err, ErrLost) || r.owner("job") != "" {
			t.Errorf("err %v, owner afterwards %q", err, r.owner("job"))
		}
		func() {
			defer func() { _ = recover() }()
			_ = k.Do(t.Context(), "job", func(context.Context, int64) error { panic("boom") })
		}()
		synctest.Wait()
		if owner := r.owner("job"); owner != "" {
			t.Errorf("held by %q after a panic", owner)
		}
		err = k.Do(t.Context(), "job", func(ctx context.Context, _ int64) error {
			g.fake.set(mute)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrLost) {
			t.Errorf("lost while running: %v, want ErrLost", err)
		}
	})
}

func TestStopEndsHoldsAndReleasesAfterTheirWork(t *testing.T) { // G13
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, nil)
		k := g.keeperOf()
		working, release := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- k.Do(t.Context(), "job", func(ctx context.Context, _ int64) error {
				close(working)
				<-ctx.Done()
				<-release
				return context.Cause(ctx)
			})
		}()
		<-working
		stopped := make(chan error, 1)
		go func() { stopped <- k.Stop() }()
		pass(5 * time.Second)
		if r.owner("job") != "a" || len(stopped) != 0 {
			t.Fatal("released while the work went on")
		}
		if state(k.s.state.Load()) != stateDraining {
			t.Errorf("state %v, want draining", state(k.s.state.Load()))
		}
		close(release)
		if err := <-stopped; err != nil {
			t.Errorf("Stop = %v", err)
		}
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("Do = %v, want ErrStopped", err)
		}
		if r.owner("job") != "" || state(k.s.state.Load()) != stateStopped {
			t.Errorf("owner %q, state %v", r.owner("job"), state(k.s.state.Load()))
		}
		if _, err := k.TryAcquire(t.Context(), "job"); !errors.Is(err, ErrStopped) {
			t.Errorf("TryAcquire after Stop = %v", err)
		}
		if err := k.Stop(); err != nil {
			t.Errorf("second Stop = %v", err)
		}
	})
}

func TestStopIsBoundedWhenWorkHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", true, func(c *ManagerConfig) { c.DrainTimeout = 3 * time.Second })
		if _, err := g.keeperOf().Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err := g.keeperOf().Stop()
		if !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "job") || time.Since(start) > 4*time.Second {
			t.Errorf("Stop = %v after %v", err, time.Since(start))
		}
		if r.owner("job") != "a" {
			t.Error("released although its work had not ended")
		}
		pass(30 * time.Second)
		if r.owner("job") != "" {
			t.Error("still renewed after Stop")
		}
	})
}

func TestStopDuringAnOutageSaysWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", false, nil)
		if _, err := g.managerOf().TryAcquire(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		g.fake.set(mute)
		began := time.Now()
		if err := g.managerOf().Stop(); !errors.Is(err, errUnknown) || time.Since(began) > g.cfg.DrainTimeout {
			t.Errorf("Stop = %v after %v, want errUnknown within %v", err, time.Since(began), g.cfg.DrainTimeout)
		}
	})
}

// A lost leave is repeated. If all are lost, Stop still ends in time, and the heartbeat expires.
func TestStopRepeatsItsLeave(t *testing.T) { // G13
	for lost, left := range map[int]int{1: 0, 1000: 1} {
		synctest.Test(t, func(t *testing.T) {
			r := newFakeRedis()
			g := newRig(t, r, "a", false, nil)
			pass(time.Second)
			var sent atomic.Int32
			g.fake.set(func(op *core.Op) (bool, bool) {
				return op.Kind == core.OpLeave && int(sent.Add(1)) <= lost, false
			})
			err := g.managerOf().Stop()
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil || sent.Load() < 2 || len(r.seen()) != left {
				t.Errorf("%d lost: Stop = %v after %d leaves; %d heartbeats are left, want %d", lost, err, sent.Load(), len(r.seen()), left)
			}
		})
	}
}

func TestUnconfirmedReleaseIsToldAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", false, nil)
		m := g.managerOf()
		if _, err := m.TryAcquire(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		g.fake.set(func(op *core.Op) (bool, bool) { return op.Kind == core.OpRelease, false })
		if err := m.Release(t.Context(), session); !errors.Is(err, errUnknown) {
			t.Fatalf("Release = %v, want errUnknown", err)
		}
		if m.IsOwned(session) {
			t.Error("believed after Release")
		}
		g.fake.set(nil)
		pass(5 * time.Second) // one timeout, if it was retried during the fault
		if r.owner(session) != "" {
			t.Error("the release was not tried again")
		}
		if err := m.Release(t.Context(), session); !errors.Is(err, ErrLost) {
			t.Errorf("Release of what is not held = %v, want ErrLost", err)
		}
		if n := g.log.FilterField(zap.String("event", "releaseFailed")).Len(); n == 0 {
			t.Error("no releaseFailed entry in the log (FR-021)")
		}
	})
}

func TestQuarantineIsToldWithItsEnd(t *testing.T) { // G9
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		end := time.Now().Add(20 * time.Second)
		r.quiet = end
		m := newRig(t, r, "a", false, nil).managerOf()
		pass(time.Second)
		_, err := m.TryAcquire(t.Context(), session)
		var q *OpError
		if !errors.As(err, &q) || q.Until.Sub(end).Abs() > 10*time.Millisecond {
			t.Fatalf("err = %v, want an *OpError until %v", err, end)
		}
		k := newRig(t, r, "b", true, nil).keeperOf()
		if _, err := k.Acquire(t.Context(), "job"); err != nil || time.Now().Before(end) {
			t.Errorf("Acquire = %v, %v before the end of the quarantine", err, time.Until(end))
		}
	})
}

func TestListenersHarmNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []string
		g := newRig(t, newFakeRedis(), "a", false, func(c *ManagerConfig) {
			c.Notify = func(e Event) {
				kinds = append(kinds, e.Kind.String())
				if len(kinds)%2 == 0 {
					runtime.Goexit()
				}
				panic("notify")
			}
		})
		m := g.managerOf()
		block := make(chan struct{})
		defer m.Subscribe(func(Event) { <-block })()
		defer close(block)
		var seen atomic.Int32
		defer m.Subscribe(func(e Event) {
			if e.Name != session || e.Kind != EventAcquiring && (e.Lease == nil || e.Fence != e.Lease.Fence()) {
				t.Errorf("event %+v", e)
			}
			if seen.Add(1)%2 == 0 {
				panic("listener")
			}
		})()
		if ok, err := m.TryAcquire(t.Context(), session); !ok || err != nil {
			t.Fatal(ok, err)
		}
		pass(25 * time.Second)
		if !m.IsOwned(session) {
			t.Fatal("a listener kept the lease from being renewed")
		}
		want := "acquireStart acquired renewStart renewed renewStart renewed"
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("Notify heard %q, want %q", got, want)
		}
		if seen.Load() != 6 {
			t.Errorf("the listener heard %d events, want 6", seen.Load())
		}
		if n := g.log.FilterField(zap.String("event", "listenerPanicked")).Len(); n != 6+3 {
			t.Errorf("%d panics in the log, want 9", n)
		}
	})
}

func TestRenewalsDoNotWaitForLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFakeRedis(), "a", false, func(c *ManagerConfig) {
			c.Sessions = func(ctx context.Context) ([]string, error) {
				<-ctx.Done() // a source that never answers
				return nil, ctx.Err()
			}
		})
		m := g.managerOf()
		if ok, err := m.TryAcquire(t.Context(), session); !ok || err != nil {
			t.Fatal(ok, err)
		}
		pass(5 * time.Minute)
		if !m.IsOwned(session) {
			t.Error("the lease was not renewed while looks hung")
		}
		if n := g.log.FilterField(zap.String("event", "sessionsFailed")).Len(); n != 5 {
			t.Errorf("%d entries on the failing source in five minutes, want 5", n)
		}
	})
}
