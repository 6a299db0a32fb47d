package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// foreign is a member that follows the specification's document exactly: SET NX EX, a second read, an EXPIRE that does not compare the
// owner, a takeover if the leader's heartbeat is stale, and a stop that reads and then deletes. Only its next cycle tells it that it no
// longer leads.
type foreign struct {
	id     string
	client *redis.Client
	cfg    Config

	mu     sync.Mutex
	leader bool
	coups  int // takeovers after a stale heartbeat
	quit   chan struct{}
	tasks  sync.WaitGroup
}

// mixed has timings for a fleet of both kinds. Our members get no notice from the foreign one, so they read often. The foreign member
// believes that it leads after its key has expired, so no key may expire when the machine stalls.
func mixed(id string) Config {
	cfg := patient(id)
	cfg.ElectionInterval, cfg.HeartbeatInterval = time.Second/2, time.Second/3
	return cfg
}

func joinForeign(client *redis.Client, id string) *foreign {
	f := &foreign{id: id, client: client, cfg: mixed(id).withDefaults(), quit: make(chan struct{})}
	f.every(f.cfg.ElectionInterval, f.masterElection)
	f.every(f.cfg.HeartbeatInterval, func(ctx context.Context) {
		if f.leads() {
			f.sendHeartbeat(ctx)
		}
	})
	return f
}

// every runs a task at once and then at a fixed rate.
func (f *foreign) every(d time.Duration, task func(context.Context)) {
	f.tasks.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			task(context.Background())
			select {
			case <-tick.C:
			case <-f.quit:
				return
			}
		}
	})
}

func (f *foreign) leads() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader
}

func (f *foreign) become(leader bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = leader
}

func (f *foreign) masterElection(ctx context.Context) {
	current, err := f.client.Get(ctx, f.cfg.LeaderKey).Result()
	switch {
	case errors.Is(err, redis.Nil):
		f.attemptElection(ctx)
	case err != nil:
	case current == f.id:
		f.client.Expire(ctx, f.cfg.LeaderKey, f.cfg.LeaderTTL)
		f.become(true)
	default:
		f.become(false)
		f.checkLeaderHealth(ctx, current)
	}
}

func (f *foreign) attemptElection(ctx context.Context) {
	won, _ := f.client.SetNX(ctx, f.cfg.LeaderKey, f.id, f.cfg.LeaderTTL).Result()
	if !won {
		f.become(false)
		return
	}
	if now, _ := f.client.Get(ctx, f.cfg.LeaderKey).Result(); now == f.id {
		f.become(true)
		f.sendHeartbeat(ctx)
	}
}

func (f *foreign) checkLeaderHealth(ctx context.Context, leader string) {
	beat, err := f.client.Get(ctx, f.cfg.HeartbeatPrefix+leader).Int64()
	if err == nil && time.Since(time.UnixMilli(beat)) > f.cfg.LeaderTTL+5*time.Second {
		f.mu.Lock()
		f.coups++
		f.mu.Unlock()
		f.attemptElection(ctx)
	}
}

func (f *foreign) sendHeartbeat(ctx context.Context) {
	f.client.Set(ctx, f.cfg.HeartbeatPrefix+f.id, time.Now().UnixMilli(), f.cfg.LeaderTTL+5*time.Second)
}

func (f *foreign) stop() {
	close(f.quit)
	f.tasks.Wait()
	if f.leads() {
		f.become(false)
		if now, _ := f.client.Get(context.Background(), f.cfg.LeaderKey).Result(); now == f.id {
			f.client.Del(context.Background(), f.cfg.LeaderKey)
		}
	}
	f.client.Del(context.Background(), f.cfg.HeartbeatPrefix+f.id)
}

func TestMixedFleetHasOneLeaderWhileNothingBreaks(t *testing.T) {
	_, client := elected(t)
	f := joinForeign(client, "java-0")
	redistest.Eventually(t, "the foreign member leads", f.leads)
	var ours []*member
	for i := range 4 {
		ours = append(ours, join(t, client, mixed(fmt.Sprintf("go-%d", i))))
	}
	var mu sync.Mutex // members change while the test watches them
	leaders := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		if f.leads() {
			n++
		}
		for _, m := range ours {
			if m.IsLeader() {
				n++
			}
		}
		return n
	}
	// The leader leaves and returns ten times, and two never lead at once, neither in the view of the other kind nor in their own.
	watched := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-watched:
				return
			case <-tick.C:
				if n := leaders(); n > 1 {
					t.Errorf("%d lead", n)
					return
				}
			}
		}
	})
	led := map[bool]int{}
	for round := range 10 {
		redistest.Eventually(t, "a leader", func() bool { return leaders() == 1 })
		led[f.leads()]++
		if f.leads() {
			f.stop()
			redistest.Eventually(t, "one of ours leads", func() bool { return leaders() == 1 }) // otherwise the next foreign member would be faster
			next := joinForeign(client, fmt.Sprintf("java-%d", round+1))
			mu.Lock()
			f = next
			mu.Unlock()
			continue
		}
		i := 0
		for !ours[i].IsLeader() {
			if i++; i == len(ours) {
				t.Fatal("the leader is none any more although nothing broke")
			}
		}
		if err := ours[i].Stop(); err != nil {
			t.Error(err)
		}
		if round%2 == 0 { // leave the election to the foreign member's cycle
			for _, m := range ours {
				_ = m.Stop()
			}
			redistest.Eventually(t, "the foreign member leads", f.leads)
		}
		for i := range ours {
			if ours[i].State() == StateFollower && !ours[i].IsLeader() {
				_ = ours[i].Stop()
				next := join(t, client, mixed(fmt.Sprintf("go-%d-%d", i, round)))
				mu.Lock()
				ours[i] = next
				mu.Unlock()
			}
		}
	}
	close(watched)
	watcher.Wait()
	f.stop()
	if led[true] == 0 || led[false] == 0 || f.coups > 0 {
		t.Errorf("led by the foreign member %d times, by ours %d times; it took a living leader for dead %d times",
			led[true], led[false], f.coups)
	}
}

// many makes a group a member of n elections and starts them.
func many(t testing.TB, client redis.UniversalClient, cfg Config, n int) (*Group, []*Election) {
	t.Helper()
	g, err := NewGroup(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop() })
	all := make([]*Election, n)
	for i := range all {
		if all[i], err = g.Election(fmt.Sprintf("leader:%d", i)); err != nil {
			t.Fatal(err)
		}
		if err := all[i].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return g, all
}

func led(all []*Election) (n int) {
	for _, e := range all {
		if e.IsLeader() {
			n++
		}
	}
	return n
}

func TestAThousandElectionsShareEverything(t *testing.T) {
	const n = 1000
	_, client := electedFor(t, Config{LeaderTTL: 10 * time.Second})
	cfg := func(id string) Config {
		return Config{InstanceID: id, LeaderTTL: 10 * time.Second}
	}
	before := runtime.NumGoroutine()
	a, first := many(t, client, cfg("a"), n)
	redistest.Eventually(t, "a leads all", func() bool { return led(first) == n })
	_, second := many(t, client, cfg("b"), n)
	redistest.Eventually(t, "b knows", func() bool {
		for _, e := range second {
			if l, ok := e.Leader(); !ok || l.Instance != "a" || l.Fence == 0 {
				return false
			}
		}
		return true
	})
	redistest.Eventually(t, "everybody is quiet", func() bool { return runtime.NumGoroutine()-before < 100 })
	redistest.Eventually(t, "the heartbeat", func() bool {
		return len(client.Keys(context.Background(), "election:heartbeat:*").Val()) == 1
	})
	if got := led(second); got != 0 {
		t.Errorf("both lead %d", got)
	}
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	redistest.Eventually(t, "b leads all", func() bool { return led(second) == n })
	for i := range first {
		if first[i].IsLeader() {
			t.Fatal("a leads although it has stopped")
		}
	}
}

func TestACycleIsTwoCommands(t *testing.T) {
	t.Parallel()
	server, client := electedFor(t, Config{LeaderTTL: 2 * time.Second})
	cfg := Config{LeaderTTL: 2 * time.Second, OpTimeout: time.Second}
	var members []*member
	for i := range 10 {
		cfg.InstanceID = fmt.Sprint(i)
		members = append(members, join(t, client, cfg))
	}
	members[0].wait(EventStateChanged)
	redistest.Eventually(t, "everybody knows", func() bool {
		for _, m := range members {
			if l, ok := m.Leader(); !ok || l.Fence == 0 {
				return false
			}
		}
		return true
	})
	var got int64
	var took time.Duration
	quiet := func() bool { // one leader all the time; a stall may cost one its leadership
		var fence int64
		leader := members[0]
		redistest.Eventually(t, "somebody leads", func() bool {
			i := slices.IndexFunc(members, func(m *member) bool { return m.IsLeader() })
			leader = members[max(i, 0)]
			fence, _ = leader.Fence()
			return fence != 0
		})
		before, start := calls(t, server), time.Now()
		after(6 * time.Second)
		got, took = calls(t, server)-before, time.Since(start)
		now, _ := leader.Fence()
		return now == fence
	}
	for tries := 1; !quiet(); tries++ {
		if tries == 5 {
			t.Fatal("not quiet: the leader changed five times")
		}
	}
	// Followers read once per cycle and before each expiry. The leader renews and sets a heartbeat every TTL/3, more than once per cycle of
	// TTL/2.
	cycles := float64(took) / float64(time.Second)
	if most := cycles * (9*2 + 3); float64(got) > most {
		t.Errorf("%d commands of 10 members in %.1f cycles, at most %.0f are allowed", got, cycles, most)
	}
}

// calls counts the commands of members in a quiet election. A script counts as one.
func calls(t testing.TB, s *redistest.Server) int64 {
	t.Helper()
	return executed(t, s, "evalsha", "mget", "publish", "scan", "set") // SET inside a script occurs only in an election
}

// executed returns how often Redis has executed the named commands.
func executed(t testing.TB, s *redistest.Server, names ...string) (sum int64) {
	t.Helper()
	for _, line := range strings.Split(s.Do("INFO", "commandstats").(string), "\r\n") {
		name, rest, _ := strings.Cut(line, ":calls=")
		if slices.Contains(names, strings.TrimPrefix(name, "cmdstat_")) {
			var n int64
			if _, err := fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
