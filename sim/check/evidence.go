package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// The number of events of each sort that a report shows before a break, and after it.
const (
	leaseLen   = 8
	renewalLen = 2
	pollsLen   = 4
	commonLen  = 10
	afterLen   = 6
)

const expired = "expired"

// keep adds the event to the record. A deletion after the lease's end is Redis' own: the key expired.
func (w *world) keep(e *history.Event) {
	if w.record == nil {
		return
	}
	if k := w.subject; e.Kind == history.RedisDeleted && e.Reason == "" && k.granted != nil && k.granted.until != 0 && e.T >= k.granted.until {
		shown := *e
		shown.Reason = expired
		e = &shown
	}
	at := w.record.add(e)
	switch {
	case e.Kind == history.AcquireFailed: // explains nothing, and every instance reports it
	case e.Session != "" && e.Kind != history.FaultStart && e.Kind != history.FaultEnd:
		w.subject.events = append(w.subject.events, at)
	case e.Kind >= history.RedisFlushed && e.Kind <= history.RedisUp, e.Kind == history.RedisEpoch, e.Kind == history.Ready,
		e.Kind == history.Stopped:
		w.common = append(w.common, at)
	}
}

// isPoll reports whether the event belongs to a poll. Such events would crowd out the others.
func isPoll(k history.Kind) bool {
	return k >= history.PollStart && k <= history.PollEnd || k >= history.Arrived && k <= history.Aborted
}

// isRoutine reports whether the event belongs to a renewal.
func isRoutine(k history.Kind) bool {
	return k == history.RenewStart || k == history.Renewed || k == history.RenewFailed || k == history.RedisExtended
}

// evidence returns the events that explain a break: the last ones of its lease and of all, the fault that caused it, and what followed.
func (w *world) evidence(b *breach) (all []history.Event) {
	var of []int32
	if b.session != nil {
		of = b.session.events
	}
	at, _ := slices.BinarySearch(of, b.seen)
	common, _ := slices.BinarySearch(w.common, b.seen)
	since := b.at - 2*int64(w.TTL)
	for _, n := range w.common[max(0, common-commonLen):common] {
		if e := w.record.event(n); e.T >= since {
			all = append(all, e)
		}
	}
	all = append(all, w.lastOf(of[:at])...)
	if b.by != nil {
		all = append(all, b.by.event())
	}
	left, after := afterLen, slices.Concat(of[at:], w.common[common:])
	slices.Sort(after)
	for _, n := range after {
		if e := w.record.event(n); left > 0 && followsUp(e.Kind) {
			all = append(all, e)
			left--
		}
	}
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	return all
}

// lastOf returns the last events of a lease: of its owners, of its polls, and the renewals that are worth showing.
func (w *world) lastOf(of []int32) (all []history.Event) {
	var renewals []history.Event
	owner, lease, polls := "", 0, 0
	for _, n := range slices.Backward(of) {
		e := w.record.event(n)
		if owner == "" && (e.Kind == history.RedisGranted || e.Kind == history.Acquired) {
			owner = e.Instance
		}
		switch {
		case isPoll(e.Kind):
			if polls++; polls <= pollsLen {
				all = append(all, e)
			}
		case isRoutine(e.Kind):
			if len(renewals) < renewalLen {
				renewals = append(renewals, e)
			}
		default:
			if lease++; lease == leaseLen {
				return append(all, append(unusual(renewals, owner), e)...)
			}
			all = append(all, e)
		}
	}
	return append(all, unusual(renewals, owner)...)
}

// unusual returns the renewals that failed, those of others than the owner, and extensions that the owner did not request.
func unusual(renewals []history.Event, owner string) []history.Event {
	own := func(e history.Event) bool {
		return e.Instance == owner && (e.Kind == history.RenewStart || e.Kind == history.Renewed)
	}
	asked := slices.ContainsFunc(renewals, own)
	return slices.DeleteFunc(renewals, func(e history.Event) bool { return own(e) || asked && e.Kind == history.RedisExtended })
}

// followsUp reports whether the event may explain a break after it happened. Renewals and the starts and ends of polls do not.
func followsUp(k history.Kind) bool {
	return k != history.PollStart && k != history.PollEnd && k != history.Served && !isRoutine(k)
}
