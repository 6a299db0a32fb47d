package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
)

// asLeader, set to a Redis URL, makes the test binary a process that takes part in the elections of BenchmarkFailover.
const asLeader = "LEASESTORM_TEST_AS_LEADER"

func TestMain(m *testing.M) {
	if url := os.Getenv(asLeader); url != "" {
		lead(url)
		return
	}
	redis.SetLogger(&logging.VoidLogger{}) // servers are killed here
	goleak.VerifyTestMain(m)
}

// quick has timings for tests on a real server: a thirtieth of Sovereign's.
func quick(id string) Config {
	return Config{InstanceID: id, LeaderTTL: time.Second}
}

// patient has timings for tests in which no leadership may end by itself. A stall of seconds costs neither an answer nor the leadership,
// which is renewed as often as with quick.
func patient(id string) Config {
	return Config{InstanceID: id, LeaderTTL: 10 * time.Second, RenewInterval: time.Second / 3, OpTimeout: 5 * time.Second,
		DrainTimeout: 10 * time.Second}
}

// elected starts a server on which patient and quick members can hold elections at once.
func elected(t testing.TB, keys ...string) (*redistest.Server, *redis.Client) {
	return electedFor(t, patient(""), keys...)
}

// electedFor is elected for members with these settings, which share a quarantine.
func electedFor(t testing.TB, cfg Config, keys ...string) (*redistest.Server, *redis.Client) {
	server := redistest.Start(t)
	client := server.Client()
	cfg.OpTimeout = max(cfg.OpTimeout, cfg.LeaderTTL/2) // a machine that stalls is no reason to begin without
	if err := admin.Bootstrap(t.Context(), client, cfg, keys...); err != nil {
		t.Fatal(err)
	}
	return server, client
}

// member is an election whose events a test can wait for.
type member struct {
	*Election
	t       testing.TB
	mu      sync.Mutex
	events  []Event
	read    int // events that wait has passed
	changed chan struct{}
}

// watch makes a member of an election that has yet to start.
func watch(t testing.TB, e *Election) *member {
	m := &member{Election: e, t: t, changed: make(chan struct{}, 1)}
	e.Subscribe(func(ev Event) {
		m.mu.Lock()
		m.events = append(m.events, ev)
		m.mu.Unlock()
		select {
		case m.changed <- struct{}{}:
		default:
		}
	})
	return m
}

// join starts a member and stops it at the test's end.
func join(t testing.TB, client redis.UniversalClient, cfg Config) *member {
	t.Helper()
	e, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := watch(t, e)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return m
}

// wait returns the next event of a kind, passing over others.
func (m *member) wait(k EventKind) Event {
	m.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		m.mu.Lock()
		for m.read < len(m.events) {
			e := m.events[m.read]
			m.read++
			if e.Kind == k {
				m.mu.Unlock()
				return e
			}
		}
		m.mu.Unlock()
		select {
		case <-m.changed:
		case <-timeout:
			m.t.Fatalf("%s: no %s within 30 s; heard %s", m.InstanceID(), k, m.story())
		}
	}
}

// story returns the member's transitions in one line.
func (m *member) story() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out string
	for _, e := range m.events {
		switch e.Kind {
		case EventStateChanged:
			out += fmt.Sprintf("%s→%s ", e.From, e.To)
		case EventLeaderChanged:
		default:
			out += e.Kind.String() + " "
		}
	}
	return out
}

// one returns the member that leads; the others must agree.
func one(t testing.TB, members []*member) *member {
	t.Helper()
	i := slices.IndexFunc(members, func(m *member) bool { return m.IsLeader() })
	if i < 0 {
		t.Fatal("nobody leads")
	}
	if slices.ContainsFunc(members[i+1:], func(m *member) bool { return m.IsLeader() }) {
		t.Fatal("two lead")
	}
	return members[i]
}

// renewals reports the renewals of the lease of a member's elections.
func renewals(cfg *Config) <-chan struct{} {
	told := make(chan struct{}, 1)
	cfg.Notify = func(e lease.Event) {
		if e.Kind == lease.EventRenewed {
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}
	return told
}

// renewed waits until the lease has been renewed several times from now on.
func renewed(t testing.TB, told <-chan struct{}) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for range 5 { // the first may be older
		select {
		case <-told:
		case <-timeout:
			t.Fatal("not renewed within 30 s")
		}
	}
}

// after waits for d of real time, in which nothing should happen.
func after(d time.Duration) { <-time.After(d) }

func TestOneLeadsAndTheNextFollows(t *testing.T) {
	_, client := elected(t)
	a := join(t, client, patient("a"))
	first := a.wait(EventLeadershipAcquired)
	b := join(t, client, patient("b"))
	b.wait(EventElectionFailed)
	if got := b.wait(EventLeaderChanged); got.Leader != "a" {
		t.Errorf("b takes %q for the leader", got.Leader)
	}
	if got := b.wait(EventLeaderChanged); got.Leader != "a" || got.Fence != first.Fence {
		t.Errorf("b takes %q with fence %d for the leader, want a with %d", got.Leader, got.Fence, first.Fence)
	}
	fence, ok := a.Fence()
	if !a.IsLeader() || !ok || fence != first.Fence || a.State() != StateLeader || b.IsLeader() || b.State() != StateFollower {
		t.Errorf("a: %v %v %d, b: %v %v", a.IsLeader(), a.State(), fence, b.IsLeader(), b.State())
	}
	if l, ok := a.Leader(); !ok || l.Instance != "a" || l.Fence != fence || time.Since(l.Since) > time.Minute {
		t.Errorf("a takes %+v for the leader", l)
	}
	stopped := time.Now()
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	second := b.wait(EventLeadershipAcquired)
	// Without the notice, the follower would learn of it from its next read, 5 s after the last one, or from the expiry.
	if wait := second.At.Sub(stopped); wait > 4*time.Second {
		t.Errorf("handed over after %v", wait)
	}
	if second.Fence <= first.Fence || a.IsLeader() || !b.IsLeader() || a.State() != StateFollower {
		t.Errorf("fence %d after %d; a leads: %v, b leads: %v", second.Fence, first.Fence, a.IsLeader(), b.IsLeader())
	}
	if want := "FOLLOWER→CANDIDATE CANDIDATE→LEADER leadershipAcquired LEADER→FOLLOWER leadershipLost "; a.story() != want {
		a.wait(EventLeadershipLost)
		if a.story() != want {
			t.Errorf("a published %s", a.story())
		}
	}
}

func TestKeysAreThoseOfTheSpecification(t *testing.T) {
	cfg := Sovereign()
	cfg.InstanceID, cfg.StartDelayMax = "instance-1", 0
	server, client := electedFor(t, cfg)
	before := time.Now().UnixMilli()
	a := join(t, client, cfg)
	fence := a.wait(EventLeadershipAcquired).Fence
	redistest.Eventually(t, "the heartbeat", func() bool { return server.Do("EXISTS", "sovereign:heartbeat:instance-1") == int64(1) })
	if got := client.Get(t.Context(), "sovereign:leader").Val(); got != "instance-1" {
		t.Errorf("the leader key holds %q", got)
	}
	if ttl := client.PTTL(t.Context(), "sovereign:leader").Val(); ttl < 20*time.Second || ttl > 30*time.Second {
		t.Errorf("the leader key lives for %v", ttl)
	}
	beat, err := client.Get(t.Context(), "sovereign:heartbeat:instance-1").Int64()
	if err != nil || beat < before || beat > time.Now().UnixMilli() {
		t.Errorf("the heartbeat is %d, %v", beat, err)
	}
	if ttl := client.PTTL(t.Context(), "sovereign:heartbeat:instance-1").Val(); ttl < 30*time.Second || ttl > 35*time.Second {
		t.Errorf("the heartbeat lives for %v", ttl)
	}
	if got := client.Get(t.Context(), "{sovereign:leader}:fence").Val(); got != fmt.Sprint(fence) {
		t.Errorf("the fence is %q, want %d", got, fence)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"sovereign:leader", "sovereign:heartbeat:instance-1"} {
		if server.Do("EXISTS", key) != int64(0) {
			t.Errorf("%s is there after Stop", key)
		}
	}
}

func TestHeartbeatsOfTheDeadAreSwept(t *testing.T) {
	_, client := elected(t)
	set := func(id string, value any, ttl time.Duration) {
		client.Set(context.Background(), "election:heartbeat:"+id, value, ttl)
	}
	old := time.Now().Add(-time.Hour).UnixMilli()
	set("dead", old, 0)
	set("dead-too", old, 0)
	set("living-in-an-election-with-a-long-TTL", old, time.Hour)
	set("a-number", 1000, 0)
	set("living", time.Now().UnixMilli(), 15*time.Second)
	set("living-without-expiry", time.Now().UnixMilli(), 0)
	set("not-ours", "a value", 0)
	client.LPush(t.Context(), "election:heartbeat:a-list", 1)
	client.Set(t.Context(), "other:dead", old, 0)
	a := join(t, client, patient("a"))
	redistest.Eventually(t, "the sweep", func() bool { return a.Stats().HeartbeatsSwept == 2 })
	keys := client.Keys(t.Context(), "*heartbeat:*").Val()
	slices.Sort(keys)
	want := []string{"a", "a-list", "a-number", "living", "living-in-an-election-with-a-long-TTL", "living-without-expiry", "not-ours"}
	for i := range want {
		want[i] = "election:heartbeat:" + want[i]
	}
	if !slices.Equal(keys, want) {
		t.Errorf("left: %v, want %v", keys, want)
	}
	if client.Exists(t.Context(), "other:dead").Val() != 1 {
		t.Error("a key of another prefix was deleted")
	}
}

// The heartbeat of a member outlives its trust, but the quarantine can still be lowered to the TTL.
func TestQuarantineIsLoweredToTheTTL(t *testing.T) { // G1
	_, client := elected(t)
	a := join(t, client, patient("a"))
	a.wait(EventLeadershipAcquired)
	redistest.Eventually(t, "the heartbeat", func() bool { return client.PTTL(t.Context(), "election:heartbeat:a").Val() > 0 })
	for _, c := range []struct {
		length time.Duration
		want   error
	}{{30 * time.Second, nil}, {9 * time.Second, redisstore.ErrOutlives}, {10 * time.Second, nil}} {
		if _, err := admin.SetQuarantine(t.Context(), client, patient(""), c.length); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.length, err, c.want)
		}
	}
	client.Set(t.Context(), "election:heartbeat:b", time.Now().UnixMilli(), 30*time.Second) // of a member with a longer TTL
	if _, err := admin.SetQuarantine(t.Context(), client, patient(""), 9*time.Second); !errors.Is(err, redisstore.ErrOutlives) {
		t.Errorf("a heartbeat of 30 s lives: %v", err)
	}
}

// stoppedClock gives every heartbeat the same value, which a member of another library would call stale.
type stoppedClock struct{}

func (stoppedClock) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (stoppedClock) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (stoppedClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); args[0] == "set" {
				args[2] = 1_700_000_000_000
			}
		}
		return next(ctx, cmds)
	}
}

func TestStaleHeartbeatIsNoCoup(t *testing.T) { // the specification's scenario 3
	t.Parallel()
	_, client := elected(t)
	cfg := Config{LeaderTTL: 3 * time.Second, OpTimeout: time.Second}
	other := cfg
	cfg.InstanceID, other.InstanceID = "a", "b"
	cfg.Hooks = []redis.Hook{stoppedClock{}}
	a := join(t, client, cfg)
	fence := a.wait(EventLeadershipAcquired).Fence
	b := join(t, client, other)
	b.wait(EventElectionFailed)
	if e := b.wait(EventHeartbeatStale); e.Leader != "a" {
		t.Errorf("%+v", e)
	}
	if got, ok := a.Fence(); !ok || got != fence || b.IsLeader() || b.Stats().HeartbeatsStale != 1 {
		t.Errorf("a's fence is %d, want %d; b leads: %v; %+v", got, fence, b.IsLeader(), b.Stats())
	}
}

func TestBadHeartbeatsAreTold(t *testing.T) {
	for name, value := range map[string]any{
		"no number": "yesterday", "nothing": "", "from the future": time.Now().Add(time.Hour).UnixMilli(),
	} {
		t.Run(name, func(t *testing.T) {
			_, client := elected(t)
			client.Set(t.Context(), "election:leader", "java-1", time.Minute)
			client.Set(t.Context(), "election:heartbeat:java-1", value, time.Minute)
			a := join(t, client, quick("a"))
			if e := a.wait(EventHeartbeatInvalid); e.Leader != "java-1" || e.Reason == "" {
				t.Errorf("%+v", e)
			}
			client.Del(t.Context(), "election:leader", "election:heartbeat:java-1")
			a.wait(EventLeadershipAcquired) // a lost heartbeat, no lost election
		})
	}
}

func TestDuplicateInstanceIsTold(t *testing.T) {
	t.Parallel()
	_, client := elected(t) // by patient members: instances may adopt an epoch that they do not know
	x := join(t, client, patient("x"))
	x.wait(EventLeadershipAcquired)
	twins := []*member{join(t, client, patient("a")), join(t, client, patient("a"))}
	for _, m := range twins {
		m.wait(EventElectionFailed)
	}
	if err := x.Stop(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "a leader", func() bool { return twins[0].IsLeader() || twins[1].IsLeader() })
	leader := one(t, twins)
	other := twins[0]
	if other == leader {
		other = twins[1]
	}
	other.wait(EventDuplicateInstance)
	one(t, twins)
	if err := leader.Stop(); err != nil {
		t.Fatal(err)
	}
	other.wait(EventLeadershipAcquired) // it gets the notice, and the election continues
}

// lead takes part in many elections until standard input ends.
func lead(url string) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(opt)
	g, err := NewGroup(client, benchConfig("first"))
	if err != nil {
		panic(err)
	}
	for i := range side {
		e, err := g.Election(fmt.Sprintf("leader:%d", i))
		if err != nil {
			panic(err)
		}
		if err := e.Start(context.Background()); err != nil {
			panic(err)
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := g.Stop(); err != nil {
		panic(err)
	}
}
