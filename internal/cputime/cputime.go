// Package cputime measures benchmarks in the CPU time of one core, the collector's included. Other load takes wall time, but changes CPU
// time only through the caches.
package cputime

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// OneCore keeps the benchmark on one core and returns a stopwatch of CPU time.
func OneCore(b *testing.B) func() time.Duration {
	b.Helper()
	before := runtime.GOMAXPROCS(1)
	b.Cleanup(func() { runtime.GOMAXPROCS(before) })
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := cpu()
	return func() time.Duration { return cpu() - began }
}
