package audit

import "math"

// Instants of different hosts compare only within the error of their clocks. Two clocks bound an instant: the host's own, whose error is
// given, and Redis', by the grants of the instance: it logged Redis' time of each, between its own times of the request and of the answer.
type instant struct {
	by    *hostClock // nil: it compares with none exactly
	wall  int64
	steps int        // of by's clock before it
	abs   span       // in true time
	redis [2]reading // by Redis' clock, and by that before it
}

// reading is when a clock of Redis showed something. A server that takes over has another clock.
type reading struct {
	run  int // the clock; 0: unknown
	time span
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
	off   [2]offset // to Redis' clock, and to that before it
}

// offset is a clock of Redis − the host's.
type offset struct {
	run int  // the clock; 0: unknown
	by  span // as narrowed last
	at  int64
}

// when returns the offset at a time of the host.
func (o offset) when(wall int64) span {
	by := max(wall-o.at, o.at-wall) / 1_000_000 * drift
	return span{o.by.lo - by, o.by.hi + by}
}

// grant narrows the offset by a grant, which Redis executed between sent and wall, at redis. It returns false if the clocks contradict it.
func (c *hostClock) grant(redis, sent, wall int64, run int) bool {
	seen := span{redis - wall, redis + 1000 - sent}
	if c.off[0].run != run {
		c.off[0], c.off[1] = offset{run, seen, wall}, c.off[0]
		return true
	}
	both := c.off[0].when(wall).and(seen)
	if both.lo > both.hi {
		c.off[0] = offset{run, seen, wall}
		return false
	}
	c.off[0] = offset{run, both, wall}
	return true
}

// instant returns the instant at which the clock shows wall.
func (c *hostClock) instant(wall int64) instant {
	x := instant{by: c, wall: wall, steps: c.steps, abs: span{wall - c.err, wall + c.err}}
	for k, o := range c.off {
		x.redis[k] = reading{o.run, o.when(wall).shift(wall)}
	}
	return x
}

// since narrows x by a clock of Redis, which showed redis before.
func (x *instant) since(run int, redis int64) {
	r := &x.redis[0]
	if r.run != run {
		x.redis[1], *r = *r, reading{run, forever}
	}
	r.time.lo = max(r.time.lo, redis)
}

// step widens the error of a clock that stepped: the times of the log may follow the step or not.
func (c *hostClock) step(by int64) {
	c.err += by
	for k := range c.off {
		o := &c.off[k].by
		*o = span{o.lo - by, o.hi + by}
	}
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
	for _, r := range x.redis {
		for _, s := range y.redis {
			if r.run != 0 && r.run == s.run {
				gap = max(gap, s.time.lo-r.time.hi)
			}
		}
	}
	return gap
}

// until returns the shortest and the longest time from x to y.
func (x instant) until(y instant) span {
	return span{x.gap(y), -y.gap(x)}
}
