package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/writefile"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/history"
)

// crashLoudly has a panic, and what the runtime itself gives up on, end the program by a signal (SIGABRT, 134 in a shell) and not
// with Go's exit code 2, which is a verdict's.
func crashLoudly() { debug.SetTraceback("crash") }

const (
	memoryMax      = 512 << 20 // beyond what an honest history takes
	memoryMaxLarge = 4 << 30   // the most that a large history may add
	memoryShard    = 16        // for each byte of a shard's file, which is compressed
	memoryEvery    = 20 * time.Millisecond
)

// memoryFor is what judging the run in a folder may take. An honest history takes less than its own size: a session some 5 KB, which has
// more in the file, an event of a run that was killed 56 bytes.
func memoryFor(run *writefile.Dir) int64 {
	name, err := history.Find(run)
	if err != nil {
		return memoryMax
	}
	return memoryMax + min(sizeOf(run.Root().Stat(name)), memoryMaxLarge)
}

// sizeOf is how many bytes of a file are on the disk, 0 if it cannot be told: a hole is no part of an honest one, and costs its maker
// nothing.
func sizeOf(st os.FileInfo, err error) int64 {
	if err != nil {
		return 0
	}
	size := st.Size()
	if of, known := st.Sys().(*syscall.Stat_t); known {
		size = min(size, of.Blocks*blockSize)
	}
	return size
}

const blockSize = 512 // of Stat_t.Blocks, whatever the file system's is

// memoryForShards is what adding up the files of shards, or going on with one, may take besides what else is done: they are read one
// by one, and an honest one takes less than what it holds, and a good deal more than its size.
func memoryForShards(files ...string) int64 {
	size := int64(0)
	for _, file := range files {
		size += min(sizeOf(os.Stat(file)), memoryMaxLarge)
	}
	return memoryMax + min(size*memoryShard, memoryMaxLarge)
}

// memoryPair is what a node of a virtual run knows of each other, generously.
const memoryPair = 1 << 10

// memoryOf is what a run of that size may take at the most, if its scenario or its folder came from elsewhere.
func memoryOf(c sim.Config) int64 { return min(memoryOfOwn(c), memoryMax+memoryMaxLarge) }

// memoryOfOwn is the same for a run whose size was given to this program by who started it: it may be as large as he likes.
func memoryOfOwn(c sim.Config) int64 {
	bytes := c.Remembers()
	if c.Engine == sim.EngineVirtual {
		nodes := int64(c.Nodes)
		bytes += nodes * nodes * memoryPair
	}
	return memoryMax + bytes
}

// ownRun names a run of this program's own nodes where it is refused.
const ownRun = "the run, or who reaches its ports"

// guard ends the program with exitWrong when it takes more memory than it may: limits of each file bound what one line takes, and
// nothing bounds what a history of a million names makes a judge remember, or a scenario of a few lines a storm. A nil one ends
// nothing.
type guard struct {
	name  string // the file, the folder or the nodes that came from elsewhere
	limit atomic.Int64
	last  atomic.Pointer[func()] // begins what must be done before the program may end, which ended then says; nil: nothing
	over  atomic.Bool
}

// lastWithin bounds what is done before the program ends: no more than it takes to have a fleet whole that is somebody else's.
const lastWithin = 20 * time.Second

// guardMemory watches what reading and running the file or folder takes until the program ends.
func guardMemory(name string, limit int64) *guard {
	g := &guard{name: name}
	g.allow(limit)
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	var look func()
	look = func() {
		metrics.Read(sample)
		if is := sample[0].Value.Uint64() - sample[1].Value.Uint64(); is > uint64(g.limit.Load()) {
			g.refuse()
			return
		}
		time.AfterFunc(memoryEvery, look)
	}
	time.AfterFunc(memoryEvery, look)
	return g
}

// allow changes what may be taken.
func (g *guard) allow(limit int64) {
	if g == nil {
		return
	}
	g.limit.Store(limit)
	debug.SetMemoryLimit(limit - limit/8) // the collector works harder before it is too late
}

// refuse ends the program, at once unless there is something to be done before. Processes of a storm are ended by the reaper, as after a
// kill. A reaper in a container ends with it: so a fleet that came from a compose project is left whole first.
func (g *guard) refuse() {
	fmt.Fprintf(&plain.Writer{To: os.Stderr}, "simulate: %s: refused: it takes more than %d MiB of memory, far more than an honest run of "+
		"its size\n", strconv.Quote(g.name), g.limit.Load()>>20)
	last := g.last.Load()
	if last == nil {
		os.Exit(exitWrong)
	}
	g.over.Store(true)
	time.AfterFunc(lastWithin, func() { os.Exit(exitWrong) })
	(*last)()
}

// leaving is an engine whose fleet goes on: where the guard has refused, the program ends as soon as that is left whole.
type leaving struct {
	sim.Engine
	guard *guard
	exit  func(code int)
}

// Close implements sim.Engine.
func (l leaving) Close() error {
	err := l.Engine.Close()
	if l.guard.over.Load() {
		l.exit(exitWrong)
	}
	return err
}
