package loop

import "github.com/leasestorm/leasestorm/internal/core"

const million = int64(1_000_000)

// Clock is a monotonic and a wall clock, which advance by (1 + PPM/10⁶) × true time since Base. Any step, drift or suspension rebases.
type Clock struct {
	Base      int64 // true time of the readings Mono and Wall
	Mono      int64
	Wall      int64
	PPM       int64
	Suspended bool // Mono does not advance
}

// elapsed converts d ns of true time to this clock. d × ppm stays far below 2⁶³ for a day at any rate of a plan.
func (c *Clock) elapsed(d int64) int64 { return d + d*c.PPM/million }

// MonoAt returns what the monotonic clock shows at the true time t.
func (c *Clock) MonoAt(t int64) core.Time {
	if c.Suspended {
		return core.Time(c.Mono)
	}
	return core.Time(c.Mono + c.elapsed(t-c.Base))
}

// WallAt returns what the wall clock shows at the true time t, in ns since the epoch.
func (c *Clock) WallAt(t int64) int64 { return c.Wall + c.elapsed(t-c.Base) }

// Now returns what both clocks show at the true time t.
func (c *Clock) Now(t int64) core.Now { return core.Now{Mono: c.MonoAt(t), Wall: c.WallAt(t)} }

// Rebase lets a later change of rate count from the true time t.
func (c *Clock) Rebase(t int64) {
	c.Mono, c.Wall = int64(c.MonoAt(t)), c.WallAt(t)
	c.Base = t
}

// Wake ends a suspension at the true time t.
func (c *Clock) Wake(t int64) {
	c.Rebase(t)
	c.Suspended = false
}

// TrueOf returns the true time that passes until a reading of now becomes at least then.
func (c *Clock) TrueOf(now, then int64) int64 {
	d := then - now
	if d <= 0 {
		return 0
	}
	// d·10⁶/(10⁶+ppm), written so that nothing overflows.
	t := d - d*c.PPM/(million+c.PPM)
	for c.elapsed(t) < d {
		t++
	}
	return t
}

// When returns the true time, at or after t, at which the monotonic clock reads m.
func (c *Clock) When(t int64, m core.Time) int64 { return t + c.TrueOf(int64(c.MonoAt(t)), int64(m)) }

// WindowEnd returns the true end of a trust window: the monotonic clock reads until or the wall clock reads untilWall.
func (c *Clock) WindowEnd(t int64, until core.Time, untilWall int64) int64 {
	end := t + c.TrueOf(c.WallAt(t), untilWall)
	if !c.Suspended {
		end = min(end, c.When(t, until))
	}
	return end
}
