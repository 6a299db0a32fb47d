// Package host has what a run needs of the machine that it shares: a clock, and measures of stalls and of exhausted files and ports.
package host

import (
	"time"
)

// Clock is a run's only clock, in nanoseconds since its start. It converts the nodes' CLOCK_MONOTONIC and the wall clock of Redis.
type Clock struct {
	Base time.Time
	Mono int64 // CLOCK_MONOTONIC at Base, ns
}

// NewClock starts a clock. The narrowest of 100 brackets gives the offset to CLOCK_MONOTONIC, within 1 µs even on a busy machine.
func NewClock() *Clock {
	c := &Clock{Base: time.Now()}
	best := time.Duration(1<<63 - 1)
	for range 100 {
		before := time.Since(c.Base)
		mono := Monotonic()
		after := time.Since(c.Base)
		if after-before < best {
			best = after - before
			c.Mono = mono - int64(before+after)/2
		}
	}
	return c
}

// Now returns the time on the run's clock.
func (c *Clock) Now() int64 { return int64(time.Since(c.Base)) }

// FromMono converts a reading of CLOCK_MONOTONIC.
func (c *Clock) FromMono(ns int64) int64 { return ns - c.Mono }

// FromWall converts a reading of a wall clock that is ahead of this host's by skew.
func (c *Clock) FromWall(ns int64, skew time.Duration) int64 {
	now := time.Now()
	return ns - int64(skew) - now.UnixNano() + int64(now.Sub(c.Base))
}
