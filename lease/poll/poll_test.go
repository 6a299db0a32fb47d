package poll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/leasetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5e"

// ttl is the TTL of the leases. A stall of a second costs neither an answer nor a lease.
const ttl = 3 * time.Second

// bench is a server with one session.
type bench struct {
	t      *testing.T
	server *redistest.Server
	client *redis.Client
	log    *observer.ObservedLogs
	core   zapcore.Core

	mu      sync.Mutex
	events  []lease.Event
	changed chan struct{}
}

func newBench(t *testing.T) *bench {
	server := redistest.Start(t)
	return benchOf(t, server, server.Client())
}

// newBubble is newBench in a bubble of testing/synctest, on a Redis in memory.
func newBubble(t *testing.T) *bench { return benchOf(t, nil, leasetest.New(t).Client()) }

func benchOf(t *testing.T, server *redistest.Server, client *redis.Client) *bench {
	b := &bench{t: t, server: server, client: client, changed: make(chan struct{}, 1)}
	b.core, b.log = observer.New(zapcore.DebugLevel)
	if err := admin.Bootstrap(t.Context(), b.client, lease.ManagerConfig{Config: lease.Config{TTL: ttl, OpTimeout: ttl / 2}}); err != nil {
		t.Fatal(err)
	}
	b.session(id, false)
	return b
}

func (b *bench) session(id string, paused bool) {
	b.client.Set(b.t.Context(), "session:"+id, fmt.Sprintf(`{"id":%q,"isPaused":%v,"name":"x"}`, id, paused), 0)
}

func (b *bench) notify(e lease.Event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// wait returns the first event of this kind after since.
func (b *bench) wait(kind lease.EventKind, since time.Time) lease.Event {
	b.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		b.mu.Lock()
		i := slices.IndexFunc(b.events, func(e lease.Event) bool { return e.Kind == kind && !e.At.Before(since) })
		var e lease.Event
		if i >= 0 {
			e = b.events[i]
		}
		b.mu.Unlock()
		if i >= 0 {
			return e
		}
		select {
		case <-b.changed:
		case <-timeout:
			b.t.Fatalf("no %v within 20 s", kind)
		}
	}
}

func (b *bench) start(cfg Config) *SessionManager {
	b.t.Helper()
	cfg.Notify = b.notify
	m, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, DiscoveryInterval: 100 * time.Millisecond,
		Logger: zap.New(b.core)}, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := m.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = m.Stop() })
	return m
}

func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("not within 20 s: %s", what)
		panic("unreachable")
	}
}

func TestPollsAtOnceAndThenEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		polls := make(chan Session, 100)
		m := b.start(Config{Interval: 50 * time.Millisecond, Timeout: 50 * time.Millisecond,
			Poll: func(ctx context.Context, s Session) error {
				if deadline, ok := ctx.Deadline(); !ok || deadline.Sub(s.Began) > 50*time.Millisecond {
					t.Errorf("deadline %v after the begin", deadline.Sub(s.Began))
				}
				polls <- s
				return nil
			}})
		first := receive(t, "the first poll", polls)
		got := b.wait(lease.EventAcquired, time.Time{})
		if first.ID != id || first.Fence != got.Fence || first.Began.Before(got.At) || first.Began.After(got.Until) {
			t.Errorf("first poll %+v under %+v", first, got)
		}
		last := first
		for range 9 {
			last = receive(t, "another poll", polls)
		}
		if d := last.Began.Sub(first.Began); d < 440*time.Millisecond {
			t.Errorf("ten polls in %v, the interval is 50ms", d)
		}
		if p := m.Polled(); !slices.Equal(p, []string{id}) || !m.Leases().IsOwned(id) {
			t.Errorf("polled %v", p)
		}
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := b.client.Exists(t.Context(), "poll:lease:"+id).Val(); n != 0 {
			t.Error("the lease was not released")
		}
		if err := m.Start(t.Context()); !errors.Is(err, lease.ErrStopped) {
			t.Errorf("Start after Stop: %v", err)
		}
	})
}

func TestPausedAndMalformedSessionsAreLeftOut(t *testing.T) {
	b := newBench(t)
	other := "11111111-2222-4333-8444-555555555555"
	paused := "22222222-2222-4333-8444-555555555555"
	b.session(paused, true)
	ctx := t.Context()
	b.client.Set(ctx, "session:no-json", "{", 0)
	b.client.Set(ctx, "session:33333333-2222-4333-8444-555555555555", `{"id":"`+other+`"}`, 0)
	b.client.Set(ctx, "session:short", `{"id":"short"}`, 0)
	b.client.LPush(ctx, "session:list", "x")
	polls := make(chan string, 100)
	m := b.start(Config{Interval: time.Second, Timeout: 100 * time.Millisecond, Poll: func(_ context.Context, s Session) error {
		polls <- s.ID
		return nil
	}})
	if got := receive(t, "a poll", polls); got != id {
		t.Fatalf("polled %s", got)
	}
	since := time.Now()
	b.session(id, true) // paused while it is polled
	if e := b.wait(lease.EventReleased, since); e.Name != id {
		t.Errorf("released %s", e.Name)
	}
	b.session(other, false) // appears
	for receive(t, "the new session's poll", polls) != other {
	}
	malformed := b.log.FilterField(zap.String("event", "sessionMalformed")).FilterField(zap.String("instance", m.Leases().InstanceID()))
	if n := malformed.Len(); n != 4 {
		t.Errorf("%d entries on 4 malformed sessions", n)
	}
}

func TestPanicCostsOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		polls := make(chan Session, 100)
		b.start(Config{Interval: 20 * time.Millisecond, Poll: func(_ context.Context, s Session) error {
			polls <- s
			panic("boom")
		}})
		first := receive(t, "a poll", polls)
		second := receive(t, "a poll after the panic", polls)
		if first.Fence != second.Fence {
			t.Errorf("the panic cost the lease: fences %d, %d", first.Fence, second.Fence)
		}
		synctest.Wait()
		if b.log.FilterField(zap.String("event", "pollPanicked")).Len() == 0 {
			t.Error("the panic is not in the log")
		}
	})
}

func TestFencedTermIsGivenBackForAHigherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		polls := make(chan Session, 100)
		var first atomic.Int64
		b.start(Config{Interval: 50 * time.Millisecond, Poll: func(_ context.Context, s Session) error {
			polls <- s
			if first.CompareAndSwap(0, s.Fence) {
				return fmt.Errorf("target: %w", ErrFenced)
			}
			return nil
		}})
		acquired := b.wait(lease.EventAcquired, time.Time{}).At
		if released := b.wait(lease.EventReleased, time.Time{}).At; released.Sub(acquired) < 50*time.Millisecond {
			t.Errorf("given back %v after it was had, which a target that goes on refusing makes a loop", released.Sub(acquired))
		}
		refused := receive(t, "the refused poll", polls)
		if next := receive(t, "a poll of the next term", polls); next.Fence <= refused.Fence {
			t.Errorf("fence %d after %d was refused", next.Fence, refused.Fence)
		}
	})
}

// A poll whose goroutine runs only after the lease has ended does not begin. A later poll makes up for it.
func TestPollThatComesTooLateDoesNotBegin(t *testing.T) { // G4
	b := newBench(t)
	polls := make(chan Session, 100)
	m := b.start(Config{Interval: time.Hour, Timeout: 100 * time.Millisecond, Poll: func(ctx context.Context, s Session) error {
		if ctx.Err() != nil {
			t.Error("began without the lease")
		}
		polls <- s
		return nil
	}})
	first := receive(t, "the first poll", polls)
	hold := b.wait(lease.EventAcquired, time.Time{}).Lease
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var p *publisher
	var r *run
	var planned time.Time
	for done := false; !done; { // until the first is handled
		m.mu.Lock()
		p = m.publishers[id]
		if done = p.run == nil; done {
			planned = time.Now()
			p.polls.Next = m.at(planned)
			if s := p.polls.Due(m.now(), m.at(inner.OfLease(hold).WindowEnd()), true, &m.timings); !s.Begin {
				t.Fatalf("%+v", s)
			}
			r = &run{hold: hold, cancel: func(error) {}}
			p.run = r
			m.running++
		}
		m.mu.Unlock()
	}
	m.poll(ctx, p, r)
	if again := receive(t, "the poll that is made up for", polls); again.Fence != first.Fence || again.Began.Before(planned) {
		t.Errorf("%+v after %+v, planned for %v", again, first, planned)
	}
}

// A poll begins only if its timeout fits into the window, so the target's work for it ends under the lease.
func TestPollBeginsOnlyIfItFitsTheWindow(t *testing.T) { // G4
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		type begun struct{ at, ends time.Time }
		polls := make(chan begun, 1000)
		b.start(Config{Interval: 20 * time.Millisecond, Timeout: 2400 * time.Millisecond,
			Poll: func(ctx context.Context, s Session) error {
				ends, _ := ctx.Deadline()
				polls <- begun{s.Began, ends}
				return nil
			}})
		at := time.Time{}
		for range 4 { // between two renewals, most of the window passes
			at = b.wait(lease.EventRenewed, at.Add(1)).At
		}
		first := receive(t, "a poll", polls)
		for p := first; ; p = receive(t, "another poll", polls) {
			if until := b.windowAt(p.at); p.ends.After(until) {
				t.Errorf("a poll that began at %v may last %v longer than its window, which ends at %v", p.at, p.ends.Sub(until), until)
			}
			if p.at.After(at) {
				break
			}
		}
	})
}

// windowAt returns the end of the latest window reported by then, or a moment later.
func (b *bench) windowAt(at time.Time) (until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		opens := e.Kind == lease.EventAcquired || e.Kind == lease.EventRenewed
		if opens && !e.At.After(at.Add(time.Millisecond)) && e.Until.After(until) {
			until = e.Until
		}
	}
	return until
}

func TestLongPollOutlivesTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		fences := make(chan int64, 10)
		b.start(Config{Interval: 50 * time.Millisecond, Timeout: time.Minute, LongPolls: true,
			Poll: func(ctx context.Context, s Session) error {
				select {
				case <-time.After(ttl + time.Second):
					fences <- s.Fence
				case <-ctx.Done():
					fences <- 0
				}
				return nil
			}})
		first, second := receive(t, "the first long poll", fences), receive(t, "the second", fences)
		if first == 0 || first != second {
			t.Errorf("fences %d, %d; want the same term throughout", first, second)
		}
	})
}

func TestStuckPollLosesItsLeaseUntilItReturns(t *testing.T) { // G8
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		polls := make(chan Session, 100)
		hang := make(chan struct{})
		b.start(Config{Interval: 50 * time.Millisecond, Timeout: 50 * time.Millisecond, Stuck: 100 * time.Millisecond,
			Poll: func(_ context.Context, s Session) error {
				polls <- s
				<-hang
				return nil
			}})
		first := receive(t, "a poll", polls)
		lost := b.wait(lease.EventLost, time.Time{})
		if lost.Fence != first.Fence || !strings.Contains(lost.Reason, "stuck") {
			t.Errorf("lost %+v, want fence %d and the reason", lost, first.Fence)
		}
		if owner := b.client.Get(t.Context(), "poll:lease:"+id).Val(); owner == "" {
			t.Error("the key was deleted while the poll went on")
		}
		synctest.Wait()
		if b.log.FilterField(zap.String("event", "pollStuck")).Len() != 1 {
			t.Error("not in the log")
		}
		close(hang)
		again := receive(t, "a poll after it returned", polls)
		if again.Fence <= first.Fence {
			t.Errorf("fence %d after %d", again.Fence, first.Fence)
		}
	})
}

// While a poll hangs, another instance polls the session as soon as the lease has expired.
func TestAnotherInstancePollsWhenAPollHangs(t *testing.T) { // G5
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		hang := make(chan struct{})
		defer close(hang)
		began := make(chan Session, 1)
		b.start(Config{Interval: time.Second, Timeout: 50 * time.Millisecond, Stuck: 100 * time.Millisecond,
			Poll: func(_ context.Context, s Session) error {
				began <- s
				<-hang
				return nil
			}})
		first := receive(t, "a poll", began)
		polls := make(chan Session, 100)
		b.start(Config{Interval: time.Second, Poll: func(_ context.Context, s Session) error {
			polls <- s
			return nil
		}})
		b.wait(lease.EventLost, time.Time{})
		lost := time.Now()
		if next := receive(t, "a poll of another instance", polls); next.Fence <= first.Fence || time.Since(lost) > ttl+100*time.Millisecond {
			t.Errorf("polled under fence %d, after %d, %v after the loss", next.Fence, first.Fence, time.Since(lost))
		}
	})
}

func TestStopLetsPollsEndThenCancels(t *testing.T) { // G2
	b := newBench(t)
	polls := make(chan Session, 100)
	cause := make(chan error, 1)
	m := b.start(Config{Interval: time.Second, Timeout: 2500 * time.Millisecond, DrainTimeout: 500 * time.Millisecond,
		Poll: func(ctx context.Context, s Session) error {
			polls <- s
			<-ctx.Done()
			if owner := b.client.Get(context.Background(), "poll:lease:"+id).Val(); owner == "" {
				t.Error("released while the poll ran")
			}
			cause <- context.Cause(ctx)
			return nil
		}})
	receive(t, "a poll", polls)
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the end", cause); !errors.Is(err, ErrDrained) {
		t.Errorf("ended by %v, want ErrDrained", err)
	}
	if b.client.Exists(t.Context(), "poll:lease:"+id).Val() != 0 {
		t.Error("not released")
	}
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	b := newBench(t)
	polls := make(chan Session, 100)
	hang := make(chan struct{})
	defer close(hang)
	m := b.start(Config{Interval: time.Second, Timeout: 50 * time.Millisecond, DrainTimeout: 50 * time.Millisecond,
		Stuck: 50 * time.Millisecond, Poll: func(_ context.Context, s Session) error {
			polls <- s
			<-hang
			return nil
		}})
	receive(t, "a poll", polls)
	var op *lease.OpError
	if err := m.Stop(); !errors.As(err, &op) || !op.Unknown {
		t.Errorf("Stop = %v, want an OpError that is Unknown", err)
	}
}

func TestConfigRefusesContradictions(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	f := func(context.Context, Session) error { return nil }
	for _, tt := range []struct {
		name  string
		lease lease.Config
		poll  Config
		want  string
	}{
		{"no function", lease.Config{}, Config{}, "Poll"},
		{"negative interval", lease.Config{}, Config{Poll: f, Interval: -1}, "Interval"},
		{"negative timeout", lease.Config{}, Config{Poll: f, Timeout: -1}, "Timeout"},
		{"timeout over the TTL", lease.Config{}, Config{Poll: f, Timeout: time.Minute}, "LongPolls"},
		{"long polls of any length", lease.Config{}, Config{Poll: f, LongPolls: true}, "needs a Timeout"},
		{"a prefix of no keys", lease.Config{},
			Config{Poll: f, Sessions: func(context.Context) ([]string, error) { return nil, nil }, SessionPrefix: "s:"}, "Sessions"},
		{"a decoder of nothing", lease.Config{},
			Config{Poll: f, Sessions: func(context.Context) ([]string, error) { return nil, nil }, Decode: DecodeSession}, "Decode"},
		{"two to tell", lease.Config{Notify: func(lease.Event) {}}, Config{Poll: f}, "Notify"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(client, tt.lease, tt.poll); !errors.Is(err, lease.ErrInvalidConfig) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: %v; want ErrInvalidConfig that names %s", err, tt.want)
			}
		})
	}
	if _, err := New(client, lease.Config{TTL: -1}, Config{Poll: f}); !errors.Is(err, lease.ErrInvalidConfig) {
		t.Errorf("New with a negative TTL: %v", err)
	}
}
