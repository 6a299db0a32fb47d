package lease

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/core"
)

// These benchmarks measure the speed table of docs/performance.md. Each reports its value and, where the limit is a ratio,
// what it is a ratio to, measured in the same run.

// holding returns a manager with n leases, without a Redis.
func holding(b *testing.B, n int) (*Manager, []string) {
	cfg := ManagerConfig{Config: Config{InstanceID: "bench"}}.withDefaults()
	s := startShell(&fakeStore{r: newFakeRedis()}, cfg, false)
	ids := sessionIDs(n)
	b.Cleanup(func() { logTaken(s); s.cancel() })
	s.loop.carry(renewals(s, ids, core.TellAcquired))
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

// best returns the least time of f, in ns, over rounds of 1,000 calls, because disturbances only add.
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
				if renewing { // every 100 ms, a hundred times as often as in the specification
					wg.Go(func() {
						tick := time.NewTicker(100 * time.Millisecond)
						defer tick.Stop()
						for {
							select {
							case <-stop:
								return
							case <-tick.C:
								m.s.loop.carry(renewals(m.s, ids, core.TellRenewed))
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

// dropping is a log that accepts everything and keeps nothing.
type dropping struct{ zapcore.LevelEnabler }

func (d dropping) With([]zapcore.Field) zapcore.Core { return d }
func (d dropping) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, d)
}
func (dropping) Write(zapcore.Entry, []zapcore.Field) error { return nil }
func (dropping) Sync() error                                { return nil }

func dropAll() *zap.Logger { return zap.New(dropping{zapcore.DebugLevel}) }

// logTaken waits until the log has all entries.
func logTaken(s *shell) { s.log.Flush(context.Background()) }

// BenchmarkTelling measures what the log and the events of 10,000 renewals cost the loop: without any listener, and with a log and a
// listener that drop everything.
func BenchmarkTelling(b *testing.B) {
	ids := sessionIDs(10_000)
	rounds := func(b *testing.B, cfg Config, listen bool) {
		s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: cfg}.withDefaults(), false)
		defer func() { logTaken(s); s.hub.close(); s.cancel() }()
		if listen {
			s.hub.subscribe(func(Event) {}, false, s.log.Calls)
		}
		s.loop.carry(renewals(s, ids, core.TellAcquired))
		var batches [][]core.Tell // as the answers come
		for at := 0; at < len(ids); at += 100 {
			batches = append(batches, renewals(s, ids[at:at+100], core.TellRenewed))
		}
		least, all := time.Hour, time.Hour
		for b.Loop() {
			start := time.Now()
			for _, tells := range batches {
				s.loop.carry(tells)
			}
			least = min(least, time.Since(start))
			for _, l := range s.hub.current() {
				<-l.Idle()
			}
			logTaken(s)
			all = min(all, time.Since(start))
		}
		b.ReportMetric(float64(least)/1e6, "loop-ms")
		b.ReportMetric(float64(all)/1e6, "until-drained-ms")
	}
	b.Run("nobody", func(b *testing.B) { rounds(b, Config{InstanceID: "bench"}, false) })
	b.Run("sinks", func(b *testing.B) { rounds(b, Config{InstanceID: "bench", Logger: dropAll()}, true) })
}

// counting is a file that only counts the entries.
type counting struct{ entries atomic.Int64 }

func (c *counting) Write(b []byte) (int, error) {
	c.entries.Add(1)
	return len(b), nil
}
func (*counting) Sync() error { return nil }

// BenchmarkRenewalEntry measures the log entry of one renewal at the default level, from the event to its JSON, as a multiple of the same
// entry written by hand. It also reports the loop's part; the log's goroutine does the rest.
func BenchmarkRenewalEntry(b *testing.B) {
	const n = 10_000
	ids, file := sessionIDs(n), &counting{}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), file, zapcore.InfoLevel))
	s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "bench", Logger: log}}.withDefaults(), false)
	defer func() { logTaken(s); s.cancel() }()
	entered := func() {
		for file.entries.Load() < n {
			runtime.Gosched()
		}
		file.entries.Store(0)
	}
	s.loop.carry(renewals(s, ids, core.TellAcquired))
	entered()
	tells := renewals(s, ids, core.TellRenewed)
	loop, told, byHand := time.Hour, time.Hour, time.Hour
	for b.Loop() {
		start := time.Now()
		s.loop.carry(tells)
		loop = min(loop, time.Since(start))
		entered()
		told = min(told, time.Since(start))
		start = time.Now()
		for _, id := range ids {
			log.Info("Lease renewed", zap.String("event", "renewed"), zap.String("instance", "bench"), zap.String("endpoint", id),
				zap.Int64("fence", 1))
		}
		byHand = min(byHand, time.Since(start))
		entered()
	}
	b.ReportMetric(float64(told)/float64(byHand), "x-by-hand")
	b.ReportMetric(float64(told)/n, "ns/entry")
	b.ReportMetric(float64(loop)/n, "ns/entry-in-loop")
}
