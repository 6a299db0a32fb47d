package virtual

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/cputime"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// fleet is a run at the specification's timings: TTL 30 s, renewal and look every 10 s, a poll every 5 s.
func sized(nodes, sessions int, storm, calm time.Duration) Config {
	return Config{
		Nodes: nodes, Sessions: sessions, Poll: 5 * time.Second, Serve: 100 * time.Millisecond, Storm: storm, Calm: calm,
	}.withDefaults()
}

func drawnFor(cfg Config, seed uint64, kinds ...fault.Kind) fault.Plan {
	return fault.Draw(seed, fault.DrawParams{
		Nodes: cfg.Nodes, Sessions: cfg.Sessions,
		Timings: timing.Timings{
			TTL: cfg.TTL, Renew: cfg.Renew, Discovery: cfg.Discovery, Poll: cfg.Poll, PollTimeout: cfg.PollTimeout,
		},
		Storm: cfg.Storm, Kinds: kinds, Virtual: true,
	})
}

// verdict runs a storm, hashes its history and judges it as it comes.
func verdict(b *testing.B, cfg Config, plan fault.Plan, seed uint64) Outcome {
	b.Helper()
	var out Outcome
	sum := history.NewSum()
	result, err := check.Judge(params(cfg, plan), func(yield func(history.Event, error) bool) {
		var err error
		if out, err = Run(cfg, plan, seed, func(e history.Event) {
			sum.Add(&e)
			yield(e, nil)
		}); err != nil {
			b.Fatal(err)
		}
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range result.Verdicts {
		if v.Verdict == check.Fail {
			b.Logf("%s: %s", v.ID, v.Detail)
		}
	}
	return out
}

// BenchmarkEngine holds the engine against an empty event loop: the queue alone, with as many events under way as ten
// instances with a hundred sessions have, and as many of them in all.
func BenchmarkEngine(b *testing.B) {
	cfg := sized(10, 100, 10*time.Minute, time.Minute)
	plan := drawnFor(cfg, 1)
	var engine, empty time.Duration
	var steps uint64
	for b.Loop() {
		clock := cputime.OneCore(b)
		out, err := Run(cfg, plan, 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		engine += clock()
		steps += out.Steps
		clock = cputime.OneCore(b)
		emptyLoop(out.Steps)
		empty += clock()
	}
	b.ReportMetric(100*float64(empty)/float64(engine), "%-of-empty-loop")
	b.ReportMetric(float64(engine.Nanoseconds())/float64(steps), "ns/event")
}

// underWay is how many events are in the queue at a time: two a session, and some an instance.
const underWay = 300

func emptyLoop(steps uint64) {
	var q loop.Queue
	for i := range int64(underWay) {
		q.Push(loop.Event{At: i})
	}
	for range steps {
		e := q.Pop()
		e.At += underWay + e.At%7
		q.Push(e)
	}
}

// BenchmarkSteady counts what an event allocates between the cold start and the end of a run in which nothing happens but
// renewals, looks and polls.
func BenchmarkSteady(b *testing.B) {
	cfg := sized(10, 100, 10*time.Minute, 0)
	allocs := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	var count, events uint64
	for b.Loop() {
		var from, n uint64
		if _, err := Run(cfg, fault.Plan{}, 1, func(e history.Event) {
			switch n++; {
			case e.Kind == history.Phase && e.Reason == phaseNames[phaseStorm]:
				from, n = allocs(), 0
			case e.Kind == history.Phase && e.Reason == phaseNames[phaseEnd]:
				count += allocs() - from
				events += n
			}
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(count)/float64(events), "allocs/event")
}

// BenchmarkLarge measures the largest fleets: a thousand instances start at once and share the sessions. In the larger one, only instances
// join, leave and crash. The collector gets the memory limit, as from GOMEMLIMIT. The memory is that of the process, without what went back
// to the system.
func BenchmarkLarge(b *testing.B) {
	b.Run("sessions=10000", func(b *testing.B) { large(b, 10_000, 1950<<20) })
	b.Run("sessions=100000", func(b *testing.B) { large(b, 100_000, 5900<<20, fault.Join, fault.Leave, fault.Crash) })
}

func large(b *testing.B, sessions int, limit int64, kinds ...fault.Kind) {
	b.Helper()
	before := debug.SetMemoryLimit(limit)
	b.Cleanup(func() { debug.SetMemoryLimit(before) })
	cfg := sized(1000, sessions, 9*time.Minute, time.Minute)
	for b.Loop() {
		clock := cputime.OneCore(b)
		var most uint64
		next := time.Duration(0)
		cfg.Stop = func() bool {
			if at := clock(); at >= next { // every half second of CPU: reading the heap's size is not free
				next = at + time.Second/2
				s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
				metrics.Read(s)
				most = max(most, s[0].Value.Uint64()-s[1].Value.Uint64())
			}
			return false
		}
		out := verdict(b, cfg, drawnFor(cfg, 1, kinds...), 1)
		took := clock()
		b.ReportMetric(float64(out.VirtualNs)/float64(took), "x-real-time")
		b.ReportMetric(float64(out.Steps)/took.Seconds(), "events/s")
		b.ReportMetric(float64(most)/(1<<30), "GiB")
	}
}
