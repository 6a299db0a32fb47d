package traces

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/cputime"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/metrics"
)

// These benchmarks compare an instance with and without metrics and traces, in turns within one run. The least of the rounds of each
// counts, because disturbances only add. All terms are sampled, and exported to nobody.

// watched is a started source.
type watched interface {
	Source
	metrics.Source
	Start(ctx context.Context) error
	Stop() error
}

// start starts k, observed or not, until the benchmark ends.
func start[K watched](b *testing.B, k K, observed bool) K {
	b.Helper()
	if observed {
		p := sdk.NewTracerProvider(sdk.WithBatcher(tracetest.NewNoopExporter()))
		unwatch, err := metrics.Watch(prometheus.NewRegistry(), k)
		if err != nil {
			b.Fatal(err)
		}
		stop := Watch(p, k)
		b.Cleanup(func() {
			stop(context.Background())
			unwatch()
			_ = p.Shutdown(context.Background())
		})
	}
	if err := k.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Stop() })
	return k
}

// bootstrapped returns a client of a server that grants cfg's leases at once.
func bootstrapped(b *testing.B, cfg lease.Config) *redis.Client {
	b.Helper()
	client := redistest.Start(b).Client()
	if err := admin.Bootstrap(b.Context(), client, cfg); err != nil {
		b.Fatal(err)
	}
	return client
}

// rounds is a hook that reports the duration of each round of renewals, from the first call to the last answer.
type rounds struct {
	calls int           // of a round
	pause time.Duration // a call after this silence begins a round

	mu          sync.Mutex
	n           int
	began, last time.Time
	took        chan time.Duration
}

func (r *rounds) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *rounds) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r *rounds) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.n == 0 || began.Sub(r.last) > r.pause {
			r.n, r.began = 0, began
		}
		r.last = time.Now()
		if r.n++; r.n == r.calls {
			select {
			case r.took <- r.last.Sub(r.began):
			default: // nobody measures yet
			}
		}
		return err
	}
}

// spent is the cost of a round of renewals: wall time, and CPU time of the process with its client library, without Redis.
type spent struct{ wall, cpu time.Duration }

func (s spent) least(t spent) spent { return spent{min(s.wall, t.wall), min(s.cpu, t.cpu)} }

// renewing returns the cost of an instance that only renews its leases: the least wall time, and the mean CPU time.
func renewing(b *testing.B, client *redis.Client, cfg lease.Config, name string, observed bool) spent {
	b.Helper()
	const measured, leases = 12, 10_000
	r := &rounds{calls: leases / 100, pause: cfg.RenewInterval / 8, took: make(chan time.Duration, 1)}
	cfg.Hooks = []redis.Hook{r}
	k, err := lease.NewKeeper(client, cfg)
	if err != nil {
		b.Fatal(err)
	}
	start(b, k, observed)
	var wg sync.WaitGroup
	for part := range 50 {
		wg.Go(func() {
			for i := range leases / 50 {
				if _, err := k.Acquire(b.Context(), fmt.Sprint(name, part, "-", i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	clock, wall := cputime.OneCore(b), time.Hour
	for range 3 { // an earlier round, and the rest of acquiring
		<-r.took
	}
	began := clock()
	for range measured {
		wall = min(wall, <-r.took)
	}
	cpu := (clock() - began) / measured
	_ = k.Stop() // an error: its leases expire
	return spent{wall, cpu}
}

// BenchmarkObservedRenewals compares a round of renewals of 10,000 leases with and without observers.
func BenchmarkObservedRenewals(b *testing.B) {
	cfg := lease.Config{TTL: 10 * time.Second, RenewInterval: 400 * time.Millisecond, Logger: zap.NewNop()}
	client := bootstrapped(b, cfg)
	for b.Loop() {
		alone, observed := spent{time.Hour, time.Hour}, spent{time.Hour, time.Hour}
		for n := range 3 {
			alone = alone.least(renewing(b, client, cfg, fmt.Sprint("alone", n, ":"), false))
			observed = observed.least(renewing(b, client, cfg, fmt.Sprint("observed", n, ":"), true))
		}
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.ReportMetric(ms(alone.wall), "alone-wall-ms")
		b.ReportMetric(ms(observed.wall), "observed-wall-ms")
		b.ReportMetric(float64(observed.wall)/float64(alone.wall), "x-wall")
		b.ReportMetric(ms(alone.cpu), "alone-cpu-ms")
		b.ReportMetric(ms(observed.cpu), "observed-cpu-ms")
		b.ReportMetric(float64(observed.cpu)/float64(alone.cpu), "x-cpu")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkObservedTakeover measures from a lease's expiry to its takeover, p50 of the best round.
func BenchmarkObservedTakeover(b *testing.B) {
	successions(b, func(client *redis.Client, h *lease.Lease) (time.Time, error) {
		inner.OfLease(h).Abandon()
		left, err := client.PTTL(b.Context(), "lease:name:"+h.Name()).Result()
		return time.Now().Add(left), err
	})
}

// BenchmarkObservedHandover measures from the call of Release until the waiting instance has the lease, p50 of the best round.
func BenchmarkObservedHandover(b *testing.B) {
	successions(b, func(_ *redis.Client, h *lease.Lease) (time.Time, error) {
		began := time.Now()
		return began, h.Release(b.Context())
	})
}

// successions reports how long leases take to pass from one instance to another since the time that end returns, with and without
// observers.
func successions(b *testing.B, end func(*redis.Client, *lease.Lease) (time.Time, error)) {
	b.Helper()
	cfg := lease.Config{TTL: time.Second, RenewInterval: time.Second / 3, OpTimeout: 600 * time.Millisecond, Logger: zap.NewNop()}
	client := bootstrapped(b, cfg)
	made := func(observed bool) *lease.Keeper {
		k, err := lease.NewKeeper(client, cfg)
		if err != nil {
			b.Fatal(err)
		}
		return start(b, k, observed)
	}
	type pair struct{ from, to *lease.Keeper }
	pairs := []pair{{made(false), made(false)}, {made(true), made(true)}}
	const rounds, leases = 10, 100
	for round := 0; b.Loop(); {
		least := []time.Duration{time.Hour, time.Hour}
		for range rounds {
			for i, p := range pairs {
				took := succession(b, p.from, p.to, fmt.Sprint("lease-", round, "-"), leases, func(h *lease.Lease) (time.Time, error) {
					return end(client, h)
				})
				slices.Sort(took)
				least[i] = min(least[i], took[len(took)/2])
				round++
			}
		}
		b.ReportMetric(float64(least[0])/1e6, "alone-p50-ms")
		b.ReportMetric(float64(least[1])/1e6, "observed-p50-ms")
		b.ReportMetric(float64(least[1])/float64(least[0]), "x-alone")
	}
	b.ReportMetric(0, "ns/op")
}

// succession makes n leases pass from one instance to the other, one every 5 ms, and returns the time of each.
func succession(b *testing.B, from, to *lease.Keeper, prefix string, n int, end func(*lease.Lease) (time.Time, error)) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		name := fmt.Sprint(prefix, i)
		h, err := from.Acquire(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		ended := make(chan time.Time, 1)
		wg.Go(func() {
			h, err := to.Acquire(context.Background(), name)
			if err != nil {
				b.Error(err)
				return
			}
			got := time.Now()
			took[i] = got.Sub(<-ended)
			_ = h.Release(context.Background())
		})
		<-tick.C
		wg.Go(func() {
			at, err := end(h)
			if err != nil {
				b.Error(err)
			}
			ended <- at
		})
	}
	wg.Wait()
	return took
}

// BenchmarkObservedIsOwned measures IsOwned of an instance with 1,000 leases that are renewed ten times a second.
func BenchmarkObservedIsOwned(b *testing.B) {
	cfg := lease.Config{TTL: 10 * time.Second, RenewInterval: 100 * time.Millisecond, Logger: zap.NewNop()}
	client := bootstrapped(b, cfg)
	ids := make([]string, 1000)
	asked := func(observed bool) func() time.Duration {
		m, err := lease.NewManager(client, lease.ManagerConfig{Config: cfg})
		if err != nil {
			b.Fatal(err)
		}
		start(b, m, observed)
		own := slices.Clone(ids)
		for i := range own {
			own[i] = uuid.NewString()
			if ok, err := m.TryAcquire(b.Context(), own[i]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
		return func() time.Duration {
			began := time.Now()
			for _, id := range own {
				if !m.IsOwned(id) {
					b.Fatal("not owned")
				}
			}
			return time.Since(began)
		}
	}
	alone, observed := asked(false), asked(true)
	for b.Loop() {
		least := []time.Duration{time.Hour, time.Hour}
		for range 2000 {
			least[0], least[1] = min(least[0], alone()), min(least[1], observed())
		}
		b.ReportMetric(float64(least[0])/1000, "alone-ns")
		b.ReportMetric(float64(least[1])/1000, "observed-ns")
		b.ReportMetric(float64(least[1])/float64(least[0]), "x-alone")
	}
	b.ReportMetric(0, "ns/op")
}
