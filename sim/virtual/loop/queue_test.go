package loop

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Events come out by time, and those of one instant in the order they went in.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var last Event
		left := 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if left == 0 || rapid.Bool().Draw(t, "push") {
				q.Push(Event{At: last.At + int64(rapid.IntRange(0, 5).Draw(t, "after"))})
				left++
				continue
			}
			e := q.Pop()
			left--
			if e.At < last.At || e.At == last.At && e.seq < last.seq && last.seq != 0 {
				t.Fatalf("(%d, %d) came after (%d, %d)", e.At, e.seq, last.At, last.seq)
			}
			last = e
		}
	})
}

func TestQueueAllocatesNothing(t *testing.T) {
	var q Queue
	for i := range 100 {
		q.Push(Event{At: int64(i)})
	}
	if n := testing.AllocsPerRun(1000, func() {
		e := q.Pop()
		e.At += 100
		q.Push(e)
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// A clock's inverse is exact: at the true time it names, the clock reads at least what was asked for, and a nanosecond
// before it does not; through changes of rate, steps and suspension.
func TestClockInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Clock{Mono: rapid.Int64Range(1, 1<<50).Draw(t, "mono"), Wall: 1 << 60}
		at, monoWas, suspended := int64(0), c.Mono, int64(0)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			at += rapid.Int64Range(0, 1<<40).Draw(t, "passes")
			c.Rebase(at)
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				c.PPM = rapid.Int64Range(-100_000, 100_000).Draw(t, "ppm")
			case 1:
				c.Wall += rapid.Int64Range(-1<<40, 1<<40).Draw(t, "step")
			case 2:
				c.Suspended = !c.Suspended
				suspended++
			}
			if m := int64(c.MonoAt(at)); m < monoWas {
				t.Fatalf("the monotonic clock went back from %d to %d", monoWas, m)
			} else {
				monoWas = m
			}
		}
		if c.Suspended {
			c.Rebase(at)
			c.Suspended = false
		}
		target := c.MonoAt(at) + core.Time(rapid.Int64Range(1, 1<<42).Draw(t, "target"))
		when := c.When(at, target)
		if got := c.MonoAt(when); got < target-1 {
			t.Fatalf("at %d the clock reads %d, before %d", when, got, target)
		}
		if got := c.MonoAt(when - 2); got >= target && when-2 >= at {
			t.Fatalf("already at %d the clock reads %d, %d was asked for", when-2, got, target)
		}
	})
}
