package check

import (
	"slices"
	"sort"
)

// stalled adds a time in which the host did not run the harness. Stalls come in order of their start.
func (w *world) stalled(from, to int64) {
	if to <= from {
		return
	}
	if n := len(w.stalls); n > 0 && from <= w.stalls[n-1].to {
		w.stats.Stalled += max(0, to-w.stalls[n-1].to)
		w.stalls[n-1].to = max(w.stalls[n-1].to, to)
		return
	}
	w.stats.Stalled += to - from
	w.stalls = append(w.stalls, span{from, to})
}

// placedBadly reports whether the times of Redis' events around a break between from and to are uncertain.
func (w *world) placedBadly(from, to int64) bool {
	return slices.ContainsFunc(w.unplaced, func(late span) bool { return late.to >= from-int64(w.TTL) && late.from <= to })
}

// earliest returns the earliest time at which Redis may have executed an event that its stream showed at the given time.
func (w *world) earliest(shown int64) int64 {
	read := shown - w.blur()
	at := read - w.stall(read, shown)
	for _, late := range slices.Backward(w.unplaced) {
		if late.from <= shown && shown <= late.to {
			at = min(at, late.from)
		}
	}
	return at
}

// recordedBy returns until when an effect of what was recorded at at may be recorded: by another observer, on a host that may have stalled.
func (w *world) recordedBy(at int64) int64 {
	if !w.allows(lateEvents) {
		return at
	}
	return at + eventAllowance + w.stall(at-eventAllowance, at)
}

// stampedBy returns until when the consequence of what was recorded at at may be stamped, by the same process.
func (w *world) stampedBy(at int64) int64 {
	if !w.allows(lateStamps) {
		return at
	}
	return at + int64(stampAllowance)
}

// woke reports whether the process of the node was frozen until just before at, so that it cannot know yet.
func (w *world) woke(n *node, at int64) bool { return n.frozenWithin(at-thawGrace) && w.allows(thaws) }

// sentAsleep reports whether a freeze may have held back what reached the target in this time, or its end.
func (w *world) sentAsleep(inst string, from, to int64) bool {
	return w.frozenBetween(inst, from-sentLate, to) && w.allows(frozenSenders)
}

// latest returns the length of the longest span in which the times of Redis' events are unknown.
func (w *world) latest() (longest int64) {
	for _, late := range w.unplaced {
		longest = max(longest, late.to-late.from)
	}
	return longest
}

// stall returns for how long the host stalled between from and to.
func (w *world) stall(from, to int64) (sum int64) {
	sum, _ = w.stallsWithin(from, to)
	return sum
}

// stallsWithin returns for how long the host stalled between from and to, and how long at once.
func (w *world) stallsWithin(from, to int64) (sum, longest int64) {
	if !w.allows(stalledHost) {
		return 0, 0
	}
	i := sort.Search(len(w.stalls), func(i int) bool { return w.stalls[i].to > from })
	for ; i < len(w.stalls) && w.stalls[i].from < to; i++ {
		one := min(w.stalls[i].to, to) - max(w.stalls[i].from, from)
		sum, longest = sum+one, max(longest, one)
	}
	return sum, longest
}
