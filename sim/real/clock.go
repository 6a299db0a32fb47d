package real

import "time"

// clock is a run's only clock, in nanoseconds since its start. It converts the nodes' CLOCK_MONOTONIC and the wall clock of Redis.
type clock struct {
	base time.Time
	mono int64 // CLOCK_MONOTONIC at base, ns
}

// newClock starts a clock. The narrowest of 100 brackets gives the offset to CLOCK_MONOTONIC, within 1 µs even on a busy machine.
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

func (c *clock) now() int64 { return int64(time.Since(c.base)) }

func (c *clock) fromMono(ns int64) int64 { return ns - c.mono }

// fromWall converts a reading of a wall clock that is ahead of this host's by skew.
func (c *clock) fromWall(ns int64, skew time.Duration) int64 {
	now := time.Now()
	return ns - int64(skew) - now.UnixNano() + int64(now.Sub(c.base))
}
