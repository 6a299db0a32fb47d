package lease

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// These benchmarks measure the speed table of docs/performance.md. Each reports its value and, where the limit is a ratio,
// what it is a ratio to, measured in the same run.

// holding returns a manager that believes in n leases, without a Redis.
func holding(b *testing.B, n int) (*Manager, []string) {
	cfg := Config{InstanceID: "bench"}.withDefaults()
	s := startShell(&fakeStore{r: newFakeRedis()}, cfg, false)
	ids := sessionIDs(n)
	s.logs = newQueue(s.writeLog)
	b.Cleanup(func() { s.logs.close(); <-s.logs.done; s.cancel() })
	s.carry(renewals(s, ids, core.TellAcquired))
	return &Manager{s}, ids
}

func renewals(s *shell, ids []string, kind core.TellKind) []core.Tell {
	now := s.now()
	tells := make([]core.Tell, 0, len(ids))
	for _, id := range ids {
		tells = append(tells, core.Tell{Kind: kind, ID: id, Fence: 1, At: now.Mono, Until: now.Mono + core.Time(time.Hour),
			UntilWall: now.Wall + int64(time.Hour)})
	}
	return tells
}

// best is the least time that f takes, in ns, over rounds of 1,000 calls: what disturbs a round only adds.
func best(f func()) float64 {
	least := time.Hour
	for range 200 {
		start := time.Now()
		for range 1000 {
			f()
		}
		least = min(least, time.Since(start))
	}
	return float64(least) / 1000
}

// against reports the cost of f as a multiple of one time.Now().
func against(b *testing.B, f func()) {
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
	var now time.Time
	cost, unit := best(f), best(func() { now = time.Now() })
	b.ReportMetric(cost/unit, "x-time.Now")
	runtime.KeepAlive(now)
}

func BenchmarkIsOwned(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for _, renewing := range []bool{false, true} {
			b.Run(fmt.Sprintf("leases=%d/renewing=%v", n, renewing), func(b *testing.B) {
				m, ids := holding(b, n)
				stop := make(chan struct{})
				var wg sync.WaitGroup
				if renewing { // all of them every 100 ms: a hundred times as often as at the seed's timing
					wg.Go(func() {
						tick := time.NewTicker(100 * time.Millisecond)
						defer tick.Stop()
						for {
							select {
							case <-stop:
								return
							case <-tick.C:
								m.s.carry(renewals(m.s, ids, core.TellRenewed))
							}
						}
					})
				}
				i := 0
				against(b, func() {
					if !m.IsOwned(ids[i]) {
						b.Fatal("not owned")
					}
					if i++; i == n {
						i = 0
					}
				})
				close(stop)
				wg.Wait()
			})
		}
	}
}

func BenchmarkHoldValid(b *testing.B) {
	m, ids := holding(b, 1000)
	h := m.s.table.get(ids[500])
	against(b, func() {
		if !h.Valid() {
			b.Fatal("not valid")
		}
	})
}

// acquireAll makes m hold n leases.
func acquireAll(b *testing.B, m *Manager, ids []string) {
	b.Helper()
	var wg sync.WaitGroup
	next := atomic.Int64{}
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(ids); i = next.Add(1) - 1 {
				if ok, err := m.TryAcquire(context.Background(), ids[i]); !ok || err != nil {
					b.Error(ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// slowTimings leaves room: nothing but what is measured happens.
func slowTimings(id string) Config {
	return Config{InstanceID: id, TTL: 30 * time.Second, RenewInterval: 3 * time.Second}
}

// BenchmarkMemory holds 10,000 leases and reports what one costs.
func BenchmarkMemory(b *testing.B) {
	_, client := bootstrapped(b)
	ids := sessionIDs(10_000)
	cfg := slowTimings("bench")
	for b.Loop() {
		m := startManager(b, client, cfg)
		acquireAll(b, m, ids[:1000]) // what exists once
		before, goroutines := heap(), runtime.NumGoroutine()
		acquireAll(b, m, ids[1000:])
		b.ReportMetric(float64(heap()-before)/9000, "B/lease")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/9000, "goroutines/lease")
		if err := m.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// tickStore watches the renewals of all leases pass.
type tickStore struct {
	store
	mu          sync.Mutex
	first, last time.Time
	calls       int
	leases      int
}

func (t *tickStore) Do(ctx context.Context, op *core.Op) core.Answer {
	if op.Kind != core.OpRenew {
		return t.store.Do(ctx, op)
	}
	start := time.Now()
	a := t.store.Do(ctx, op)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls == 0 {
		t.first = start
	}
	t.last = time.Now()
	t.calls++
	t.leases += len(op.Items)
	return a
}

// rawRenew is the least that can be done: compare the owner, extend.
var rawRenew = redis.NewScript(`
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
return #KEYS`)

// BenchmarkRenewAll renews 10,000 leases once, by a whole instance and by the raw script in the same batches.
func BenchmarkRenewAll(b *testing.B) {
	_, client := bootstrapped(b)
	ids := sessionIDs(10_000)
	cfg := slowTimings("bench").withDefaults()
	real, err := redisstore.New(client, cfg.store())
	if err != nil {
		b.Fatal(err)
	}
	watch := &tickStore{store: real}
	m := &Manager{startShell(watch, cfg, false)}
	if err := m.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer m.Stop()
	acquireAll(b, m, ids)
	var wall, raw []float64
	calls := 0
	for b.Loop() {
		watch.mu.Lock()
		watch.calls, watch.leases = 0, 0
		watch.mu.Unlock()
		tick := time.NewTicker(5 * time.Millisecond)
		for done := false; !done; {
			<-tick.C
			watch.mu.Lock()
			done = watch.leases >= len(ids)
			watch.mu.Unlock()
		}
		tick.Stop()
		wall = append(wall, float64(watch.last.Sub(watch.first))/1e6)
		calls = watch.calls
		start := time.Now()
		for at := 0; at < len(ids); at += 100 {
			keys := make([]string, 100)
			for i := range keys {
				keys[i] = "poll:lease:" + ids[at+i]
			}
			if err := rawRenew.Run(b.Context(), client, keys, "bench", 30_000).Err(); err != nil {
				b.Fatal(err)
			}
		}
		raw = append(raw, float64(time.Since(start))/1e6)
	}
	b.ReportMetric(slices.Min(wall), "instance-ms")
	b.ReportMetric(slices.Min(raw), "raw-ms")
	b.ReportMetric(slices.Min(wall)/slices.Min(raw), "wall-ratio")
	b.ReportMetric(float64(calls), "calls")
	b.ReportMetric(0, "ns/op")
}

// report gives p50, p99 and max of durations in ms.
func report(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	at := func(p int) float64 { return float64(all[min(len(all)-1, len(all)*p/100)]) / 1e6 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
	b.ReportMetric(at(100), "max-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTakeover measures from the expiry of a lease whose owner is gone to the waiter's term, 200 times a round.
func BenchmarkTakeover(b *testing.B) {
	_, client := bootstrapped(b)
	a, w := startKeeper(b, client, quick("a")), startKeeper(b, client, quick("w"))
	var all []time.Duration
	for round := 0; b.Loop(); round++ {
		all = append(all, succession(b, a, w, round, func(h *Hold) time.Time {
			h.Abandon()
			left, err := client.PTTL(b.Context(), "poll:lease:"+h.Name()).Result()
			if err != nil {
				b.Fatal(err)
			}
			return time.Now().Add(left)
		})...)
	}
	report(b, all)
}

// BenchmarkHandover measures from the call of Release to the waiter's term, 200 times a round.
func BenchmarkHandover(b *testing.B) {
	_, client := bootstrapped(b)
	a, w := startKeeper(b, client, quick("a")), startKeeper(b, client, quick("w"))
	var all []time.Duration
	for round := 0; b.Loop(); round++ {
		all = append(all, succession(b, a, w, round, func(h *Hold) time.Time {
			start := time.Now()
			if err := h.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
			return start
		})...)
	}
	report(b, all)
}

// succession makes 200 leases pass from a to w, one every 5 ms, and returns how long each took from what end returned.
func succession(b *testing.B, a, w *Keeper, round int, end func(*Hold) time.Time) []time.Duration {
	b.Helper()
	const n = 200
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		name := fmt.Sprintf("lease-%d-%d", round, i)
		h, err := a.Acquire(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		from := make(chan time.Time, 1)
		wg.Go(func() {
			h, err := w.Acquire(context.Background(), name)
			if err != nil {
				b.Error(err)
				return
			}
			got := time.Now()
			took[i] = got.Sub(<-from)
			_ = h.Release(context.Background())
		})
		<-tick.C
		wg.Go(func() { from <- end(h) })
	}
	wg.Wait()
	return took
}

// BenchmarkWaiters counts the commands that 100 waiting instances cost while one lease is held for 3 s.
func BenchmarkWaiters(b *testing.B) {
	server, client := bootstrapped(b)
	cfg := func(id string) Config { return Config{InstanceID: id} } // the seed's timings
	holder := startKeeper(b, client, cfg("holder"))
	var keepers []*Keeper
	for i := range 100 {
		keepers = append(keepers, startKeeper(b, client, cfg(fmt.Sprintf("w%d", i))))
	}
	for b.Loop() {
		h, err := holder.Acquire(b.Context(), "job")
		if err != nil {
			b.Fatal(err)
		}
		before := commands(b, server)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for _, k := range keepers {
			wg.Go(func() {
				if h, err := k.Acquire(ctx, "job"); err == nil {
					_ = h.Release(context.Background())
				}
			})
		}
		<-time.After(3 * time.Second)
		during := commands(b, server) - before
		_ = h.Release(b.Context())
		wg.Wait()
		cancel()
		b.ReportMetric(float64(during)/100, "commands/waiter")
	}
	b.ReportMetric(0, "ns/op")
}

// commands is how many calls Redis has executed, those inside scripts left out.
func commands(b *testing.B, s *redistest.Server) int64 {
	b.Helper()
	var sum int64
	for _, line := range strings.Split(s.Do("INFO", "commandstats").(string), "\r\n") {
		name, rest, _ := strings.Cut(line, ":calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "publish", "script|load", "subscribe", "ping", "hello", "client|setname":
			var n int64
			if _, err := fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n); err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// BenchmarkIdle reports the CPU that an instance with 1,000 leases takes at the seed's timings, in percent of a core.
func BenchmarkIdle(b *testing.B) {
	_, client := bootstrapped(b)
	m := startManager(b, client, Config{InstanceID: "bench"})
	acquireAll(b, m, sessionIDs(1000))
	for b.Loop() {
		before, start := cpu(b), time.Now()
		<-time.After(10 * time.Second)
		b.ReportMetric(100*float64(cpu(b)-before)/float64(time.Since(start)), "%-of-a-core")
	}
	b.ReportMetric(0, "ns/op")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
