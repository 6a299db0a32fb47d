// Package latency measures waits of milliseconds on machines with other load.
package latency

import (
	"slices"
	"testing"
	"time"
)

// rounds is the number of rounds of a measurement. The best one counts, because other load only adds.
const rounds = 5

// Report calls round some times, each with its number. It reports p50 and p99 of the best round in ms, the worst of all rounds, and how
// late a timer was in the best round at p99, which no program on this machine could beat.
func Report(b *testing.B, round func(n int) []time.Duration) {
	var best, bestLate, worst []time.Duration
	p99 := func(all []time.Duration) time.Duration { return all[(len(all)-1)*99/100] }
	for n := 0; b.Loop(); {
		for range rounds {
			stop := make(chan struct{})
			late := lateness(stop)
			all := round(n)
			close(stop)
			n++
			slices.Sort(all)
			if best == nil || p99(all) < p99(best) {
				best, bestLate = all, <-late
			}
			if worst == nil || p99(all) > p99(worst) {
				worst = all
			}
		}
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	b.ReportMetric(ms(best[len(best)/2]), "p50-ms")
	b.ReportMetric(ms(p99(best)), "p99-ms")
	b.ReportMetric(ms(p99(worst)), "worst-p99-ms")
	b.ReportMetric(ms(p99(bestLate)), "timer-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// lateness measures how late timers of 2 ms are until stop is closed, and then sends the sorted results.
func lateness(stop chan struct{}) <-chan []time.Duration {
	seen := make(chan []time.Duration, 1)
	go func() {
		const pause = 2 * time.Millisecond
		all := []time.Duration{0}
		timer := time.NewTimer(pause)
		defer timer.Stop()
		for {
			start := time.Now()
			timer.Reset(pause)
			select {
			case <-timer.C:
				all = append(all, time.Since(start)-pause)
			case <-stop:
				slices.Sort(all)
				seen <- all
				return
			}
		}
	}()
	return seen
}
