package check

import (
	"slices"
	"sort"
)

// host has the times in which the machine of the harness stalled, and in which the harness read Redis' stream late.
type host struct {
	*run
	stalls   []span
	unplaced []span // spans in which the exact times of Redis' events are unknown
	stalled  int64  // sum of the stalls
}

// addStall adds a time in which the host did not run the harness. Such times come in order of their start.
func (x *host) addStall(from, to int64) {
	if to <= from {
		return
	}
	if n := len(x.stalls); n > 0 && from <= x.stalls[n-1].to {
		x.stalled += max(0, to-x.stalls[n-1].to)
		x.stalls[n-1].to = max(x.stalls[n-1].to, to)
		return
	}
	x.stalled += to - from
	x.stalls = append(x.stalls, span{from, to})
}

// addLate adds a time in which the host read Redis' stream late.
func (x *host) addLate(from, to int64) {
	x.addStall(from, to)
	x.unplaced = append(x.unplaced, span{from, to})
}

// placedBadly reports whether the times of Redis' events around a break between from and to are uncertain.
func (x *host) placedBadly(from, to int64) bool {
	return slices.ContainsFunc(x.unplaced, func(late span) bool { return late.to >= from-int64(x.TTL) && late.from <= to })
}

// earliest returns the earliest time at which Redis may have executed an event that its stream showed at the given time.
func (x *host) earliest(shown int64) int64 {
	read := shown - x.blur()
	at := read - x.stall(read, shown)
	for _, late := range slices.Backward(x.unplaced) {
		if late.from <= shown && shown <= late.to {
			at = min(at, late.from)
		}
	}
	return at
}

// recordedBy returns the latest time at which another observer records the effect of an event that was recorded at the time at. The
// host may have stalled in between.
func (x *host) recordedBy(at int64) int64 {
	if !x.allows(lateEvents) {
		return at
	}
	return at + eventAllowance + x.stall(at-eventAllowance, at)
}

// stampedBy returns the latest time at which the same process stamps the consequence of an event that was recorded at the time at.
func (x *host) stampedBy(at int64) int64 {
	if !x.allows(lateStamps) {
		return at
	}
	return at + int64(stampAllowance)
}

// latest returns the length of the longest span in which the times of Redis' events are unknown.
func (x *host) latest() (longest int64) {
	for _, late := range x.unplaced {
		longest = max(longest, late.to-late.from)
	}
	return longest
}

// stall returns for how long the host stalled between from and to.
func (x *host) stall(from, to int64) (sum int64) {
	sum, _ = x.stallsWithin(from, to)
	return sum
}

// stallsWithin returns for how long the host stalled between from and to, and how long at once.
func (x *host) stallsWithin(from, to int64) (sum, longest int64) {
	if !x.allows(stalledHost) {
		return 0, 0
	}
	i := sort.Search(len(x.stalls), func(i int) bool { return x.stalls[i].to > from })
	for ; i < len(x.stalls) && x.stalls[i].from < to; i++ {
		one := min(x.stalls[i].to, to) - max(x.stalls[i].from, from)
		sum, longest = sum+one, max(longest, one)
	}
	return sum, longest
}
