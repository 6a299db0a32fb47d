package sim

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/cputime"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// tenMinutes is the storm of the table: 10 instances, 100 sessions, the seeds' timings.
func tenMinutes(b *testing.B, seed uint64, length time.Duration) Config {
	b.Helper()
	c, err := Scenario{Engine: EngineVirtual, Nodes: 10, Sessions: 100, Seed: seed, Fixed: Fixed{Duration: length}}.Resolve()
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkVirtualStorm measures `simulate --engine virtual --nodes 10 --sessions 100 --duration 10m`. That includes writing, hashing and
// reading history and logs, judging all guarantees, and saving the report.
func BenchmarkVirtualStorm(b *testing.B) {
	dir := b.TempDir()
	var events int64
	var virtual time.Duration
	clock, seed := cputime.OneCore(b), uint64(0)
	for b.Loop() {
		seed++
		r, err := Run(b.Context(), tenMinutes(b, seed, 10*time.Minute), Options{Engine: NewVirtual(nil), Reports: dir})
		if err != nil {
			b.Fatal(err)
		}
		events += r.Report.Stats.Events
		virtual += r.Outcome.Virtual
	}
	took := clock()
	b.ReportMetric(float64(virtual)/float64(took), "x-real-time")
	b.ReportMetric(float64(events)/took.Seconds(), "events/s")
}

// BenchmarkSeed measures one seed of an exploration.
func BenchmarkSeed(b *testing.B) {
	clock, seed := cputime.OneCore(b), uint64(0)
	for b.Loop() {
		seed++
		c, plan, err := Scenario{}.Swarm(seed)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, _, err := JudgeVirtual(b.Context(), c, plan, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(clock().Microseconds())/1000/float64(seed), "ms/seed")
}

// BenchmarkGrowth compares the cost of an event with a hundred instances and ten thousand sessions to its cost with ten and a hundred, over
// ten minutes, hashed and judged as in an exploration. The speed of a shared machine may change by half within a minute, so each large run
// is between small ones, and the median of the rounds' ratios counts.
func BenchmarkGrowth(b *testing.B) {
	const rounds = 9
	perEvent := func(nodes, sessions int, least int64) float64 {
		clock, events := cputime.OneCore(b), int64(0)
		for seed := uint64(1); events < least; seed++ {
			c := tenMinutes(b, seed, 10*time.Minute)
			c.Nodes, c.Sessions = nodes, sessions
			plan, err := c.Draw(func(k fault.Kind) error { return k.AvailableOn(true) })
			if err != nil {
				b.Fatal(err)
			}
			_, _, n, err := JudgeVirtual(b.Context(), c, plan, nil)
			if err != nil {
				b.Fatal(err)
			}
			events += n
		}
		return float64(clock().Nanoseconds()) / float64(events)
	}
	for b.Loop() {
		var smalls, larges, ratios []float64
		before := perEvent(10, 100, 2_000_000)
		for range rounds {
			large := perEvent(100, 10_000, 1)
			after := perEvent(10, 100, 2_000_000)
			small := (before + after) / 2
			smalls, larges, ratios = append(smalls, small), append(larges, large), append(ratios, large/small)
			before = after
		}
		slices.Sort(smalls)
		slices.Sort(larges)
		slices.Sort(ratios)
		b.ReportMetric(smalls[rounds/2], "ns/event-10x100")
		b.ReportMetric(larges[rounds/2], "ns/event-100x10000")
		b.ReportMetric(ratios[rounds/2], "x-growth")
		b.ReportMetric(ratios[0], "x-growth-least")
		b.ReportMetric(ratios[rounds-1], "x-growth-most")
	}
}

// BenchmarkJudgeStorm judges a saved storm again, from memory and from its file, and measures the memory at the end.
func BenchmarkJudgeStorm(b *testing.B) {
	dir := b.TempDir()
	storm := func(c Config) Result {
		r, err := Run(b.Context(), c, Options{Engine: NewVirtual(nil), Reports: dir})
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	short := storm(tenMinutes(b, 1, 10*time.Minute))
	judge := func(b *testing.B, r Result, events iter.Seq2[history.Event, error]) {
		p := r.params()
		if _, err := check.Judge(p, events, nil); err != nil {
			b.Fatal(err)
		}
	}
	lines := func(r Result) iter.Seq2[history.Event, error] { return history.Open(r.Dir) }
	var decoded []history.Event
	for e, err := range lines(short) {
		if err != nil {
			b.Fatal(err)
		}
		decoded = append(decoded, e)
	}
	rate := func(b *testing.B, unit string, events func() iter.Seq2[history.Event, error]) {
		clock, n := cputime.OneCore(b), 0
		for b.Loop() {
			judge(b, short, events())
			n += len(decoded)
		}
		b.ReportMetric(float64(n)/clock().Seconds(), unit)
	}
	b.Run("decoded", func(b *testing.B) {
		rate(b, "events/s", func() iter.Seq2[history.Event, error] {
			return func(yield func(history.Event, error) bool) {
				for i := range decoded {
					if !yield(decoded[i], nil) {
						return
					}
				}
			}
		})
	})
	b.Run("lines", func(b *testing.B) {
		rate(b, "lines/s", func() iter.Seq2[history.Event, error] { return lines(short) })
	})
	b.Run("memory", func(b *testing.B) {
		decoded = nil
		for b.Loop() {
			bytes, events := uint64(0), 0
			judge(b, short, func(yield func(history.Event, error) bool) {
				before := heap()
				for e, err := range lines(short) {
					if events++; !yield(e, err) {
						return
					}
				}
				bytes = heap() - before
			})
			b.ReportMetric(float64(bytes)/float64(events), "B/event")
		}
	})
}

// heap returns the size of live memory.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkShrink shrinks storms of 60 faults that break a guarantee, to their minimum.
func BenchmarkShrink(b *testing.B) {
	for _, m := range []struct {
		breaks string
		bend   Breaker
	}{{"G3", virtualtest.ConstantFence}, {"G4", virtualtest.DeafToFailure}} {
		b.Run(m.breaks, func(b *testing.B) {
			c, plan := sixtyFaults(b)
			c.Plan = &plan
			clock := cputime.OneCore(b)
			for b.Loop() {
				s, err := Shrink(context.Background(), c, m.breaks, m.bend, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(s.To.Faults), "faults-left")
			}
			b.ReportMetric(clock().Seconds()/float64(b.N), "s/shrink")
		})
	}
}

// sixtyFaults draws a dense storm of the default fleet and cuts its plan to 60.
func sixtyFaults(b *testing.B) (Config, fault.Plan) {
	b.Helper()
	c := tenMinutes(b, 3, 10*time.Minute)
	plan := fault.Draw(c.Seed, fault.DrawParams{
		Nodes: c.Nodes, Sessions: c.Sessions,
		Timings: timing.Timings{
			TTL: c.TTL, Renew: c.Renew, Discovery: c.Discovery, Poll: c.Poll, PollTimeout: c.PollTimeout,
		},
		Storm: c.Storm, Virtual: true, Mixed: true, Rate: 2,
	})
	if len(plan.Faults) < 60 {
		b.Fatalf("only %d faults were drawn", len(plan.Faults))
	}
	plan.Faults = plan.Faults[:60]
	return c, plan
}
