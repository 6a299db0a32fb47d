package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/internal/sessionid"
)

// quick has a tenth of the specification's timings for tests on a real server, and intervals a third as long as usual. A stall of a second
// or two costs neither an answer nor a lease.
func quick(id string) Config {
	return Config{InstanceID: id, TTL: 3 * time.Second, OpTimeout: 2 * time.Second, RenewInterval: time.Second / 3,
		DiscoveryInterval: time.Second / 3}
}

// bootstrapped starts a server that grants leases at once, and returns it with a client.
func bootstrapped(t testing.TB, opts ...redistest.Option) (*redistest.Server, *redis.Client) {
	return bootstrappedFor(t, quick(""), opts...)
}

// bootstrappedFor is bootstrapped for instances with cfg, whose group agrees on its quarantine.
func bootstrappedFor(t testing.TB, cfg Config, opts ...redistest.Option) (*redistest.Server, *redis.Client) {
	server := redistest.Start(t, opts...)
	client := server.Client()
	cfg.TTL = cmp.Or(cfg.TTL, DefaultTTL)
	cfg.OpTimeout = max(cfg.OpTimeout, cfg.TTL/2) // a machine that stalls is no reason to begin without
	for _, fleet := range []fleet{cfg, ManagerConfig{Config: cfg}} {
		if err := storeOf(t, client, fleet).Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return server, client
}

// heardEvents collects the events of one instance and lets a test wait for one.
type heardEvents struct {
	mu      sync.Mutex
	all     []Event
	changed chan struct{}
}

func newHeard() *heardEvents { return &heardEvents{changed: make(chan struct{}, 1)} }

func (h *heardEvents) add(e Event) {
	h.mu.Lock()
	h.all = append(h.all, e)
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// wait returns the first event, heard or to come, that matches.
func (h *heardEvents) wait(t testing.TB, what string, match func(Event) bool) Event {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		h.mu.Lock()
		i := slices.IndexFunc(h.all, match)
		var e Event
		if i >= 0 {
			e = h.all[i]
		}
		h.mu.Unlock()
		if i >= 0 {
			return e
		}
		select {
		case <-h.changed:
		case <-timeout:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func startKeeper(t testing.TB, c redis.UniversalClient, cfg Config) *Keeper {
	t.Helper()
	k, err := NewKeeper(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop() })
	return k
}

func startManager(t testing.TB, c redis.UniversalClient, cfg ManagerConfig) *Manager {
	t.Helper()
	m, err := NewManager(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	return m
}

// stalls returns a function that returns for how long this process has not run since.
func stalls(t *testing.T) func() time.Duration {
	const every, usual = 5 * time.Millisecond, 5 * time.Millisecond
	stop, sum := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var stalled time.Duration
		for {
			begin := time.Now()
			select {
			case <-time.After(every):
				if late := time.Since(begin) - every; late > usual {
					stalled += late
				}
			case <-stop:
				sum <- stalled + max(0, time.Since(begin)-every)
				return
			}
		}
	}()
	return func() time.Duration { close(stop); return <-sum }
}

func TestRedisHandoverAndTakeover(t *testing.T) {
	t.Parallel()
	_, client := bootstrapped(t)
	a := startKeeper(t, client, quick("a"))
	b := startKeeper(t, client, quick("b"))
	ha, err := a.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	var held *OpError
	if _, err := b.TryAcquire(t.Context(), "job"); !errors.As(err, &held) || held.Owner != "a" {
		t.Fatalf("TryAcquire = %v", err)
	}
	got := make(chan *Lease, 1)
	go func() {
		hb, err := b.Acquire(context.Background(), "job")
		if err != nil {
			t.Error(err)
		}
		got <- hb
	}()
	if err := ha.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	hb := <-got
	if hb.Fence() <= ha.Fence() || !hb.Valid() || ha.Valid() {
		t.Errorf("fences %d, %d; valid %v, %v", ha.Fence(), hb.Fence(), ha.Valid(), hb.Valid())
	}
	if owner := client.Get(t.Context(), "lease:name:job").Val(); owner != "b" {
		t.Errorf("the key holds %q", owner)
	}
	innerLease{hb}.Abandon() // as a crash: the key stays and is not renewed
	stalled := stalls(t)
	start := time.Now()
	again, err := a.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if wait, stall := time.Since(start), stalled(); wait > quick("").TTL+250*time.Millisecond+stall { // G5
		t.Errorf("taken over %v after the crash, want at most TTL + 250ms + the %v in which the machine stalled", wait, stall)
	}
	if again.Fence() <= hb.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), hb.Fence())
	}
}

func TestRedisKeyOfAnotherType(t *testing.T) {
	_, client := bootstrapped(t)
	client.LPush(t.Context(), "poll:lease:"+session, "x")
	m := startManager(t, client, ManagerConfig{Config: quick("a")})
	if _, err := m.TryAcquire(t.Context(), session); !errors.Is(err, errWrongType) {
		t.Errorf("TryAcquire = %v, want errWrongType", err)
	}
	if _, err := m.TryAcquire(t.Context(), "x"); !errors.Is(err, sessionid.ErrInvalid) {
		t.Errorf("TryAcquire = %v, want ErrInvalid", err)
	}
}

func TestRedisFlushCostsNoDuplicateAndNoGap(t *testing.T) { // G9
	server, client := bootstrapped(t)
	a := startKeeper(t, client, quick("a"))
	b := startKeeper(t, client, quick("b"))
	events := newHeard()
	defer a.Subscribe(events.add)()
	h, err := a.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	server.Flush()
	if _, err := b.TryAcquire(t.Context(), "job"); err == nil || !errors.Is(err, ErrQuarantine) && !errors.Is(err, ErrHeld) {
		t.Errorf("a second owner after a flush: %v", err)
	}
	flushed := time.Now()
	events.wait(t, "the owner asserts its term", func(e Event) bool { return e.Kind == EventRenewed && e.At.After(flushed) })
	if owner := client.Get(t.Context(), "lease:name:job").Val(); owner != "a" || !h.Valid() {
		t.Errorf("the key holds %q, hold valid: %v", owner, h.Valid())
	}
}

func TestRedisManagersShare(t *testing.T) { // US1, US2
	_, client := bootstrapped(t)
	ids := sessionIDs(9)
	var ms []*Manager
	heard := newHeard()
	for _, id := range []string{"a", "b", "c"} {
		cfg := ManagerConfig{Config: quick(id)}
		cfg.Sessions = func(context.Context) ([]string, error) { return slices.Clone(ids), nil }
		cfg.Notify = func(e Event) {
			if e.Kind == EventYield {
				e.Lease.Drop()
			}
			heard.add(e)
		}
		ms = append(ms, startManager(t, client, cfg))
	}
	balanced := func(want ...int) func(Event) bool {
		return func(Event) bool {
			for i, m := range ms {
				if len(m.OwnedSessions()) != want[i] {
					return false
				}
			}
			return true
		}
	}
	heard.wait(t, "three each", balanced(3, 3, 3))
	if err := ms[0].Stop(); err != nil {
		t.Fatal(err)
	}
	live, err := ms[1].GetLiveNodes(t.Context())
	if err != nil || !slices.Equal(live, []string{"b", "c"}) {
		t.Errorf("live %v, %v", live, err)
	}
	heard.wait(t, "the others take what was released", func(Event) bool {
		return len(ms[1].OwnedSessions())+len(ms[2].OwnedSessions()) == 9
	})
	info, err := ms[1].Info(t.Context(), ms[2].OwnedSessions()[0])
	if err != nil || info.State != LeaseStateOther || info.OwnerID != "c" {
		t.Errorf("Info of the other's lease: %+v, %v", info, err)
	}
}
