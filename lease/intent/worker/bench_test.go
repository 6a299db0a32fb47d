package worker

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// idleWork is a pipeline that costs nothing but its goroutine.
type idleWork struct{ quit chan struct{} }

func (p idleWork) Start(context.Context, int64) error { return nil }
func (p idleWork) Wait() error                        { <-p.quit; return nil }
func (p idleWork) Stop()                              { close(p.quit) }

// started is an Observer that reports each start that became RUNNING.
type started chan struct{}

func (started) Intent(string, bool) {}
func (started) Replay()             {}
func (s started) WorkerStart(outcome string) {
	if outcome == "started" {
		s <- struct{}{}
	}
}

// benchRig runs one worker with n slots.
func benchRig(b *testing.B, n int) (*store.Store, started) {
	server := redistest.Start(b)
	client := server.Client()
	slots := make([]string, n)
	for i := range slots {
		slots[i] = strconv.Itoa(i + 1)
	}
	o := store.Options{} // the specification's TTL
	st, err := store.New(client, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	if err := admin.Bootstrap(b.Context(), client, st.Options()); err != nil {
		b.Fatal(err)
	}
	told := make(started, n)
	w, err := New(client, Config{Store: o, Slots: slots, Observer: told,
		NewPipeline: func(Job) Pipeline { return idleWork{make(chan struct{})} }})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Stop() })
	return st, told
}

func benchStart(b *testing.B, st *store.Store, i int) string {
	s, err := intent.Request{Resource: fmt.Sprint("s", i)}.Canonical(intent.Names{})
	if err != nil {
		b.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	if _, _, err := st.Put(b.Context(), id, s, time.Hour); err != nil {
		b.Fatal(err)
	}
	return id
}

// BenchmarkAcceptedToRunning measures one start at a time, with a free slot, from the answer until RUNNING is written.
func BenchmarkAcceptedToRunning(b *testing.B) {
	st, told := benchRig(b, 10_000)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		benchStart(b, st, i)
		accepted := time.Now()
		<-told
		took = append(took, time.Since(accepted))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkSessions10000 measures what 10,000 running sessions add to the costs of one worker.
func BenchmarkSessions10000(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		st, told := benchRig(b, n)
		benchStart(b, st, -1)
		<-told
		before, rss := heap(), resident(b)
		began := time.Now()
		for i := range n - 1 {
			benchStart(b, st, i)
		}
		for range n - 1 {
			<-told
		}
		b.ReportMetric(time.Since(began).Seconds(), "s-to-run")
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-heap")
		b.ReportMetric(float64(resident(b)-rss)/(1<<20), "MiB-rss")
	}
}

// heap returns the size of all live memory, stacks included.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// resident returns the process's resident memory after it has returned what it does not use.
func resident(b *testing.B) int64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("this system does not tell")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
