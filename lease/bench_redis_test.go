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
	"github.com/leasestorm/leasestorm/internal/latency"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

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

// slowTimings leaves time between renewals, so that nothing disturbs the measurement.
func slowTimings(id string) Config {
	return Config{InstanceID: id, TTL: 30 * time.Second, RenewInterval: 3 * time.Second}
}

// BenchmarkMemory holds 10,000 leases and reports the memory of each.
func BenchmarkMemory(b *testing.B) {
	_, client := bootstrappedFor(b, slowTimings(""))
	ids := sessionIDs(10_000)
	cfg := slowTimings("bench")
	for b.Loop() {
		m := startManager(b, client, ManagerConfig{Config: cfg})
		acquireAll(b, m, ids[:1000]) // one-time allocations
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

// tickStore times the renewals of all leases.
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

// await returns once n leases have been renewed.
func (t *tickStore) await(n int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		<-tick.C
		t.mu.Lock()
		done = t.leases >= n
		t.mu.Unlock()
	}
}

// rawRenew does the least possible work: it compares the owner and extends the lease.
var rawRenew = redis.NewScript(`
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
return #KEYS`)

// renewing is an instance that renews its leases together, every 400 ms.
func renewing(b *testing.B, client *redis.Client, cfg Config, ids []string) (*Manager, *tickStore) {
	b.Helper()
	cfg.InstanceID, cfg.RenewInterval = "bench", 400*time.Millisecond
	full := ManagerConfig{Config: cfg}.withDefaults()
	full.Notify = func(e Event) { // drops events as the log drops entries; BenchmarkTelling has what they cost
		if e.Kind == EventYield {
			e.Lease.Drop()
		}
	}
	real, err := redisstore.New(client, full.store())
	if err != nil {
		b.Fatal(err)
	}
	watch := &tickStore{store: real}
	m := &Manager{startShell(watch, full, false)}
	if err := m.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	acquireAll(b, m, ids)
	return m, watch
}

// round returns the wall time of one renewal of n leases, in ms, and Redis' CPU time meanwhile.
func (t *tickStore) round(n int, redisCPU func() float64) (wall, cpu float64) {
	t.mu.Lock()
	t.calls, t.leases = 0, 0
	t.mu.Unlock()
	used := redisCPU()
	t.await(n)
	return float64(t.last.Sub(t.first)) / 1e6, redisCPU() - used
}

const renewalRounds = 25 // the least of each counts, because disturbances only add

// BenchmarkRenewAll renews 10,000 leases once, by a whole instance and by the raw script in the same batches.
func BenchmarkRenewAll(b *testing.B) {
	server, client := bootstrappedFor(b, Config{})
	ids := sessionIDs(10_000)
	m, watch := renewing(b, client, Config{}, ids)
	defer m.Stop()
	var wall, raw, cpu, rawCPU []float64
	redisCPU := func() float64 { return info(b, server, "used_cpu_sys", "used_cpu_user") }
	for b.Loop() {
		for range renewalRounds {
			took, used := watch.round(len(ids), redisCPU)
			wall, cpu = append(wall, took), append(cpu, used)
			before := redisCPU()
			start := time.Now()
			renewRaw(b, client, ids)
			raw = append(raw, float64(time.Since(start))/1e6)
			rawCPU = append(rawCPU, redisCPU()-before)
		}
	}
	b.ReportMetric(slices.Min(wall), "instance-ms")
	b.ReportMetric(slices.Min(raw), "raw-ms")
	b.ReportMetric(slices.Min(wall)/slices.Min(raw), "wall-ratio")
	b.ReportMetric(slices.Min(cpu)/slices.Min(rawCPU), "redis-cpu-ratio")
	b.ReportMetric(float64(watch.calls), "calls")
	b.ReportMetric(0, "ns/op")
}

func renewRaw(b *testing.B, client *redis.Client, ids []string) {
	b.Helper()
	for at := 0; at < len(ids); at += 100 {
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = "poll:lease:" + ids[at+i]
		}
		if err := rawRenew.Run(b.Context(), client, keys, "bench", 30_000).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTakeover measures 200 times per round from the expiry of a dead owner's lease to the waiter's term.
func BenchmarkTakeover(b *testing.B) {
	_, client := bootstrapped(b)
	a, w := startKeeper(b, client, quick("a")), startKeeper(b, client, quick("w"))
	latency.Report(b, func(n int) []time.Duration {
		return succession(b, a, w, n, func(h *Lease) time.Time {
			innerLease{h}.Abandon()
			left, err := client.PTTL(b.Context(), "lease:name:"+h.Name()).Result()
			if err != nil {
				b.Error(err)
			}
			return time.Now().Add(left)
		})
	})
}

// BenchmarkHandover measures 200 times per round from the call of Release to the waiter's term.
func BenchmarkHandover(b *testing.B) {
	_, client := bootstrapped(b)
	a, w := startKeeper(b, client, quick("a")), startKeeper(b, client, quick("w"))
	latency.Report(b, func(n int) []time.Duration {
		return succession(b, a, w, n, func(h *Lease) time.Time {
			start := time.Now()
			if err := h.Release(b.Context()); err != nil {
				b.Error(err)
			}
			return start
		})
	})
}

// succession makes 200 leases pass from a to w, one every 5 ms. It returns the time of each since the time that end returned.
func succession(b *testing.B, a, w *Keeper, round int, end func(*Lease) time.Time) []time.Duration {
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

// BenchmarkWaiters counts the commands of 100 waiting instances while one lease is held for 3 s.
func BenchmarkWaiters(b *testing.B) {
	server, client := bootstrappedFor(b, Config{})
	cfg := func(id string) Config { return Config{InstanceID: id} } // the specification's timings
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

// commands returns how many calls Redis has executed, without those inside scripts.
func commands(b *testing.B, s *redistest.Server) int64 {
	b.Helper()
	var sum int64
	for _, line := range strings.Split(s.Do("INFO", "commandstats").(string), "\r\n") {
		name, rest, _ := strings.Cut(line, ":calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "publish", "script|load", "subscribe", "ping", "hello", "client|setname", "scan":
			var n int64
			if _, err := fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n); err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// BenchmarkIdle reports the CPU of an instance with 1,000 sessions at the specification's timings, in percent of a core: a renewal, a
// heartbeat and a discovery every 10 s.
func BenchmarkIdle(b *testing.B) {
	_, client := bootstrappedFor(b, Config{})
	ids := sessionIDs(1000)
	m := startManager(b, client, ManagerConfig{Config: Config{InstanceID: "bench"}, Sessions: fixed(ids)})
	settle(b, []*Manager{m}, len(ids))
	least := 100.0
	for b.Loop() {
		for range 2 {
			before, start := cpu(b), time.Now()
			<-time.After(10 * time.Second)
			least = min(least, 100*float64(cpu(b)-before)/float64(time.Since(start)))
		}
	}
	b.ReportMetric(least, "%-of-a-core")
	b.ReportMetric(0, "ns/op")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func fixed(ids []string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) { return slices.Clone(ids), nil }
}

// settle waits until managers share n sessions.
func settle(b *testing.B, managers []*Manager, n int) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for {
		owned, settled := 0, true
		for _, m := range managers {
			owned += len(m.OwnedSessions())
			settled = settled && state(m.s.state.Load()) == stateSettled
		}
		if settled && owned == n {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			b.Fatalf("%d of %d sessions are owned, all settled %v", owned, n, settled)
		}
	}
}

// BenchmarkLooks reports the load of a settled fleet on Redis at the specification's timings: commands per second (a script counts as one),
// reads of keys per second, and CPU.
func BenchmarkLooks(b *testing.B) {
	for _, size := range []struct{ instances, sessions int }{{10, 1000}, {50, 5000}} {
		b.Run(fmt.Sprintf("instances=%d/sessions=%d", size.instances, size.sessions), func(b *testing.B) {
			server, client := bootstrappedFor(b, Config{})
			ids := sessionIDs(size.sessions)
			var fleet []*Manager
			for i := range size.instances {
				fleet = append(fleet, startManager(b, client, ManagerConfig{Config: Config{InstanceID: fmt.Sprintf("host-%d", i)}, Sessions: fixed(ids)}))
			}
			settle(b, fleet, size.sessions)
			for b.Loop() {
				calls, keys, used := commands(b, server), info(b, server, "keyspace_hits", "keyspace_misses"),
					info(b, server, "used_cpu_sys", "used_cpu_user")
				start := time.Now()
				<-time.After(20 * time.Second)
				took := time.Since(start).Seconds()
				b.ReportMetric(float64(commands(b, server)-calls)/took, "commands/s")
				b.ReportMetric((info(b, server, "keyspace_hits", "keyspace_misses")-keys)/took, "key-reads/s")
				b.ReportMetric(100*(info(b, server, "used_cpu_sys", "used_cpu_user")-used)/took, "%-of-a-redis-core")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// info returns the sum of fields in Redis' INFO.
func info(b *testing.B, s *redistest.Server, fields ...string) (sum float64) {
	b.Helper()
	for _, line := range strings.Split(s.Do("INFO").(string), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(fields, name) {
			var v float64
			if _, err := fmt.Sscan(value, &v); err != nil {
				b.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}
