package virtual

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/core"
)

// next is what the loop does.
func (q *queue) next() event {
	if len(q.heap) == 0 {
		q.refill()
	}
	return q.pop()
}

// Events come out by time, and those of one instant in the order they went in.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var last event
		left := 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if left == 0 || rapid.Bool().Draw(t, "push") {
				q.push(event{at: last.at + int64(rapid.IntRange(0, 5).Draw(t, "after"))})
				left++
				continue
			}
			e := q.next()
			left--
			if e.at < last.at || e.at == last.at && e.seq < last.seq && last.seq != 0 {
				t.Fatalf("(%d, %d) came after (%d, %d)", e.at, e.seq, last.at, last.seq)
			}
			last = e
		}
	})
}

func TestQueueAllocatesNothing(t *testing.T) {
	var q queue
	for i := range 100 {
		q.push(event{at: int64(i)})
	}
	if n := testing.AllocsPerRun(1000, func() {
		e := q.next()
		e.at += 100
		q.push(e)
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// A clock's inverse is exact: at the true time it names, the clock reads at least what was asked for, and a nanosecond
// before it does not; through changes of rate, steps and suspension.
func TestClockInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := clock{mono: rapid.Int64Range(1, 1<<50).Draw(t, "mono"), wall: epochNs}
		at, monoWas, suspended := int64(0), c.mono, int64(0)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			at += rapid.Int64Range(0, 1<<40).Draw(t, "passes")
			c.rebase(at)
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				c.ppm = rapid.Int64Range(-maxDrift, maxDrift).Draw(t, "ppm")
			case 1:
				c.wall += rapid.Int64Range(-1<<40, 1<<40).Draw(t, "step")
			case 2:
				c.suspended = !c.suspended
				suspended++
			}
			if m := int64(c.monoAt(at)); m < monoWas {
				t.Fatalf("the monotonic clock went back from %d to %d", monoWas, m)
			} else {
				monoWas = m
			}
		}
		if c.suspended {
			c.rebase(at)
			c.suspended = false
		}
		target := c.monoAt(at) + core.Time(rapid.Int64Range(1, 1<<42).Draw(t, "target"))
		when := c.when(at, target)
		if got := c.monoAt(when); got < target-1 {
			t.Fatalf("at %d the clock reads %d, before %d", when, got, target)
		}
		if got := c.monoAt(when - 2); got >= target && when-2 >= at {
			t.Fatalf("already at %d the clock reads %d, %d was asked for", when-2, got, target)
		}
	})
}

// Behind a limit of bandwidth bytes arrive at its rate. What waits when it is lifted goes on then, as behind a real one.
func TestWhatWaitsGoesOnWhenTheLimitIsLifted(t *testing.T) {
	const kB, second = 1000, int64(1e9)
	l := link{narrow: []narrow{{kbps: 50, until: 4 * second}, {kbps: 2, until: 10 * second}}}
	for _, c := range []struct{ at, kB, takes int64 }{
		{at: 1, kB: 4, takes: 2},
		{at: 1, kB: 100, takes: 9},
		{at: 9, kB: 4, takes: 1},
		{at: 10, kB: 4, takes: 0},
	} {
		if takes := l.narrowed(c.at*second, int(c.kB*kB)); takes != c.takes*second {
			t.Errorf("%d kB at %d s take %d ns, want %d s", c.kB, c.at, takes, c.takes)
		}
	}
}
