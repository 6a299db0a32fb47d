package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// crashLoudly has a panic, and what the runtime itself gives up on, end the program by a signal (SIGABRT, 134 in a shell) and not
// with Go's exit code 2, which is a verdict's.
func crashLoudly() { debug.SetTraceback("crash") }

const (
	memoryMax      = 512 << 20 // beyond what the judge keeps of an honest history
	memoryMaxLarge = 4 << 30   // the most that a large history may add
	memoryEvery    = 20 * time.Millisecond
)

// memoryFor is what judging the run in dir may take. An honest history takes less than its own size: a session some 5 KB, which has
// more in the file, an event of a run that was killed 56 bytes.
func memoryFor(dir string) int64 {
	file, err := history.Find(dir)
	if err != nil {
		return memoryMax
	}
	st, err := os.Stat(file)
	if err != nil {
		return memoryMax
	}
	return memoryMax + min(st.Size(), memoryMaxLarge)
}

// guardMemory ends the program with exitWrong when it takes more memory than that, until the function that it returns is called:
// limits of each file bound what one line takes, and nothing bounds what a history of a million names makes a judge remember.
func guardMemory(limit int64, dir string, stderr io.Writer) (stop func()) {
	before := debug.SetMemoryLimit(limit - limit/8) // the collector works harder before it is too late
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	var timer atomic.Pointer[time.Timer]
	look := func() {
		metrics.Read(sample)
		if is := sample[0].Value.Uint64() - sample[1].Value.Uint64(); is > uint64(limit) {
			fmt.Fprintf(stderr, "simulate: %s: refused: judging it takes more than %d MiB of memory, far more than an honest run of its "+
				"size\n", strconv.Quote(dir), limit>>20)
			os.Exit(exitWrong)
		}
		if t := timer.Load(); t != nil {
			t.Reset(memoryEvery)
		}
	}
	timer.Store(time.AfterFunc(memoryEvery, look))
	return func() {
		if t := timer.Swap(nil); t != nil {
			t.Stop()
		}
		debug.SetMemoryLimit(before)
	}
}
