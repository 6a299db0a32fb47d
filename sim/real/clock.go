package real

import "time"

// clock is the one clock of a run: nanoseconds since its start. Nodes stamp with CLOCK_MONOTONIC of the same host, Redis
// with its wall clock; both are brought to the run's clock here.
type clock struct {
	base time.Time // the run's start
	mono int64     // CLOCK_MONOTONIC at base, ns
}

// newClock starts a clock. The offset to CLOCK_MONOTONIC is taken from the narrowest of 100 brackets, which is off by
// less than a microsecond also on a busy machine.
func newClock() *clock {
	c := &clock{base: time.Now()}
	best := time.Duration(1<<63 - 1)
	for range 100 {
		before := time.Since(c.base)
		mono := monotonic()
		after := time.Since(c.base)
		if after-before < best {
			best = after - before
			c.mono = mono - int64(before+after)/2
		}
	}
	return c
}

// now returns the time on the run's clock.
func (c *clock) now() int64 { return int64(time.Since(c.base)) }

// fromMono converts a stamp of CLOCK_MONOTONIC.
func (c *clock) fromMono(ns int64) int64 { return ns - c.mono }

// fromWall converts a reading of a wall clock that is ahead of this host's by skew, as that stands against the monotonic
// one now.
func (c *clock) fromWall(ns int64, skew time.Duration) int64 {
	now := time.Now()
	return ns - int64(skew) - now.UnixNano() + int64(now.Sub(c.base))
}
