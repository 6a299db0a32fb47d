package audit

import "math"

// Instants of different hosts compare only within the error of their clocks. Two clocks bound an instant: the host's own, whose error is
// given, and Redis', by the grants of the instance: it logged Redis' time of each, between its own times of the request and of the answer.
type instant struct {
	by    *hostClock // nil: it compares with none exactly
	wall  int64
	steps int  // of by's clock before it
	abs   span // in true time
	redis span // by Redis' clock
	run   int  // of Redis' clock; 0: unknown
}

// span is an interval of time.
type span struct{ lo, hi int64 }

var forever = span{math.MinInt64 / 4, math.MaxInt64 / 4}

func (s span) shift(by int64) span { return span{s.lo + by, s.hi + by} }

func (s span) and(t span) span { return span{max(s.lo, t.lo), min(s.hi, t.hi)} }

// drift is the largest rate by which clocks that are kept in time deviate from each other, in parts per million.
const drift = 500

// hostClock is what is known of an instance's clock.
type hostClock struct {
	err   int64 // of the host's clock
	steps int
	off   span  // Redis' clock − the host's
	run   int   // of Redis' clock, that off is about
	at    int64 // host's time at which off was narrowed last
}

// offset returns the distance to Redis' clock at a time.
func (c *hostClock) offset(wall int64) span {
	by := max(wall-c.at, c.at-wall) / 1_000_000 * drift
	return span{c.off.lo - by, c.off.hi + by}
}

// grant narrows the offset by a grant, which Redis executed between sent and wall, at redis. It returns false if the clocks contradict it.
func (c *hostClock) grant(redis, sent, wall int64, run int) bool {
	seen := span{redis - wall, redis + 1000 - sent}
	if c.run != run {
		c.off, c.run, c.at = seen, run, wall
		return true
	}
	both := c.offset(wall).and(seen)
	if both.lo > both.hi {
		c.off, c.at = seen, wall
		return false
	}
	c.off, c.at = both, wall
	return true
}

// instant returns the instant at which the clock shows wall.
func (c *hostClock) instant(wall int64) instant {
	x := instant{by: c, wall: wall, steps: c.steps, abs: span{wall - c.err, wall + c.err}, redis: forever, run: c.run}
	if x.run != 0 {
		x.redis = c.offset(wall).shift(wall)
	}
	return x
}

// step widens the error of a clock that stepped: the times of the log may follow the step or not.
func (c *hostClock) step(by int64) {
	c.err += by
	c.off = span{c.off.lo - by, c.off.hi + by}
	c.steps++
}

// before reports whether x is certainly not after y.
func (x instant) before(y instant) bool { return x.gap(y) >= 0 }

// gap returns how long y is certainly after x; negative if it may be before it.
func (x instant) gap(y instant) int64 {
	if x.by != nil && x.by == y.by && x.steps == y.steps {
		return y.wall - x.wall
	}
	gap := y.abs.lo - x.abs.hi
	if x.run != 0 && x.run == y.run {
		gap = max(gap, y.redis.lo-x.redis.hi)
	}
	return gap
}

// until returns the shortest and the longest time from x to y.
func (x instant) until(y instant) span {
	return span{x.gap(y), -y.gap(x)}
}
