package check

import (
	"iter"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// missedFailover reports whether the fault, which ends now, may have kept an instance from hearing of a failover. The clocks of two
// servers may differ, so an instance that hears of a failover acquires nothing for a TTL. An undisturbed instance hears of it at its next
// renewal or heartbeat. Faults with less time between them count as one.
func (w *world) missedFailover(by *injection) bool {
	if !slices.ContainsFunc(w.losses, (*injection).failsOver) {
		return false
	}
	hears := int64(max(w.Renew, w.Heartbeat) + w.RenewTimeout)
	since := by.From
	lasted := func(inj *injection) bool { return inj.To >= since-hears-inj.Lingers() }
	for was := since + 1; since < was; {
		was = since
		for _, inj := range slices.Backward(w.since(since - hears)) {
			if (inj.ofRedis() || inj.Has(fault.Silences) && (by.node == nil || inj.node == by.node)) && lasted(inj) && !inj.Has(fault.Instant) {
				since = min(since, inj.From)
			}
		}
	}
	return slices.ContainsFunc(w.losses, func(inj *injection) bool { return inj.failsOver() && lasted(inj) })
}

// span is an interval of time, including its ends.
type span struct{ from, to int64 }

// reach returns the time in which the injection, or its aftermath, can delay other instances. It returns false if it can delay none.
func (w *world) reach(inj *injection) (span, bool) { return w.reachBy(inj, w.now) }

// reachBy is reach by what had happened at at, when the injection may not have been healed yet.
func (w *world) reachBy(inj *injection, at int64) (span, bool) {
	x := inj.Interval
	x.To = max(min(x.To, at), x.From)
	if inj.did != didPlan {
		return w.reachOfServers(inj, x.To), true
	}
	if w.forgets(inj) {
		x.Does |= fault.Forgets
	}
	to, ok := x.Reach(w.Timings, inj.detectedAt)
	return span{x.From, to}, ok
}

// reaching yields the injections, other than but, whose reach ends at from or later. They come in order of their start.
func (w *world) reaching(from int64, but *injection, reach func(*injection) (span, bool)) iter.Seq2[*injection, span] {
	return func(yield func(*injection, span) bool) {
		for _, inj := range w.since(from) {
			if inj == but || but != nil && but.Kind.Scope() == fault.ScopeNone && inj.N == but.N {
				continue
			}
			if r, ok := reach(inj); ok && r.to >= from && !yield(inj, r) {
				return
			}
		}
	}
}

// overlapping returns the first injection whose reach overlaps the time between from and to, or nil. It leaves out the injection but.
func (w *world) overlapping(from, to int64, but *injection, reach func(*injection) (span, bool)) *injection {
	for inj, r := range w.reaching(from, but, reach) {
		if r.from <= to {
			return inj
		}
	}
	return nil
}

// delayed returns an injection, other than but, that could delay an acquisition between from and to; nil if there is none.
func (w *world) delayed(from, to int64, but *injection) *injection {
	return w.overlapping(from, to, but, func(inj *injection) (span, bool) {
		r, ok := w.reach(inj)
		if inj.blocksAcquire {
			r.to += int64(w.TTL)
		}
		return r, ok
	})
}

// hindered returns an injection of the node or of Redis, other than but, that could delay the node between from and to; nil: none.
func (w *world) hindered(n *node, from, to int64, but *injection) *injection {
	return w.overlapping(from, to, but, func(inj *injection) (span, bool) {
		r, ok := w.reach(inj)
		return r, ok && (inj.node == nil || inj.node == n) && w.allows(hinderedStops)
	})
}
