package virtual

import "github.com/leasestorm/leasestorm/internal/core"

const million = int64(1_000_000)

// clock is a monotonic and a wall clock, which advance by (1 + ppm/10⁶) × true time since base. Any step, drift or suspension rebases.
type clock struct {
	base      int64 // true time of the readings mono and wall
	mono      int64
	wall      int64
	ppm       int64
	suspended bool // mono does not advance
}

// elapsed converts d ns of true time to this clock. d × ppm stays far below 2⁶³ for a day at any rate of a plan.
func (c *clock) elapsed(d int64) int64 { return d + d*c.ppm/million }

func (c *clock) monoAt(t int64) core.Time {
	if c.suspended {
		return core.Time(c.mono)
	}
	return core.Time(c.mono + c.elapsed(t-c.base))
}

func (c *clock) wallAt(t int64) int64 { return c.wall + c.elapsed(t-c.base) }

func (c *clock) now(t int64) core.Now { return core.Now{Mono: c.monoAt(t), Wall: c.wallAt(t)} }

func (c *clock) rebase(t int64) {
	c.mono, c.wall = int64(c.monoAt(t)), c.wallAt(t)
	c.base = t
}

func (c *clock) wake(t int64) {
	c.rebase(t)
	c.suspended = false
}

// trueOf returns the true time that passes until a reading of now becomes at least then.
func (c *clock) trueOf(now, then int64) int64 {
	d := then - now
	if d <= 0 {
		return 0
	}
	// d·10⁶/(10⁶+ppm), written so that nothing overflows.
	t := d - d*c.ppm/(million+c.ppm)
	for c.elapsed(t) < d {
		t++
	}
	return t
}

// when returns the true time, at or after t, at which the monotonic clock reads m.
func (c *clock) when(t int64, m core.Time) int64 { return t + c.trueOf(int64(c.monoAt(t)), int64(m)) }

// windowEnd returns the true end of a trust window: the monotonic clock reads until or the wall clock reads untilWall.
func (c *clock) windowEnd(t int64, until core.Time, untilWall int64) int64 {
	end := t + c.trueOf(c.wallAt(t), untilWall)
	if !c.suspended {
		end = min(end, c.when(t, until))
	}
	return end
}
