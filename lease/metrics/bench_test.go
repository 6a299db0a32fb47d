package metrics

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/cputime"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// BenchmarkRenewalsCounted is what an instance with 10,000 leases spends on a round of renewals while it is counted, to what it spends
// alone: CPU time of its process, the client library's included, Redis' not. The least of the rounds counts.
func BenchmarkRenewalsCounted(b *testing.B) {
	server := redistest.Start(b)
	cfg := lease.Config{TTL: 10 * time.Second, RenewInterval: 400 * time.Millisecond, Logger: zap.NewNop()}
	if err := lease.Bootstrap(b.Context(), server.Client(), cfg); err != nil {
		b.Fatal(err)
	}
	const rounds = 25
	spent := func(name string, watch bool) time.Duration {
		k, err := lease.NewKeeper(server.Client(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		r := prometheus.NewRegistry()
		if watch {
			if _, err := Watch(r, k); err != nil {
				b.Fatal(err)
			}
		}
		if err := k.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		defer k.Stop()
		for i := range 10_000 {
			if _, err := k.Acquire(b.Context(), fmt.Sprint(name, i)); err != nil {
				b.Fatal(err)
			}
		}
		clock, least := cputime.OneCore(b), time.Hour
		tick := time.NewTicker(cfg.RenewInterval)
		defer tick.Stop()
		<-tick.C
		for range rounds {
			began := clock()
			<-tick.C
			least = min(least, clock()-began)
		}
		return least
	}
	for b.Loop() {
		alone, counted := spent("alone:", false), spent("counted:", true)
		b.ReportMetric(float64(alone.Microseconds())/1000, "alone-ms")
		b.ReportMetric(float64(counted.Microseconds())/1000, "counted-ms")
		b.ReportMetric(float64(counted)/float64(alone), "x-alone")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPollCounted is what counting adds to a poll.
func BenchmarkPollCounted(b *testing.B) {
	f, err := Poll(prometheus.NewRegistry(), func(context.Context, poll.Session) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = f(b.Context(), poll.Session{})
	}
}
