package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// category is the sort of an event in the evidence of a break.
type category uint8

const (
	ofNone  category = iota
	ofLease          // a change of the lease
	ofRenewal
	ofPoll
	ofAll // concerns all leases
	ofFault
)

// beforeLen is the number of events of each sort that a report shows before a break.
var beforeLen = [...]int{ofLease: 8, ofRenewal: 2, ofPoll: 4, ofAll: 10}

// afterLen is the number of events that a report shows after a break.
const afterLen = 6

const expired = "expired"

// keep adds the event to the record. A deletion after the lease's end is Redis' own: the key expired.
func (w *world) keep(e *history.Event) {
	kept := *e
	if k := w.subject; e.Kind == history.RedisDeleted && e.Reason == "" && k.granted != nil && k.granted.until != 0 && e.T >= k.granted.until {
		kept.Reason = expired
	}
	if w.subject != nil {
		w.subject.events = append(w.subject.events, w.seen)
	}
	w.record.Add(kept)
	w.seen++
	w.tabulate(e)
}

// categoryOf returns the sort of an event in the evidence of a break of the session, which may be nil.
func categoryOf(e *history.Event, s *session) category {
	switch k := e.Kind; {
	case k == history.FaultStart:
		return ofFault
	case k == history.FaultEnd, k == history.AcquireFailed: // every instance reports the last
		return ofNone
	case k >= history.RedisFlushed && k <= history.RedisUp, k == history.RedisEpoch, k == history.Ready, k == history.Stopped:
		return ofAll
	case s == nil || e.Session != s.id:
		return ofNone
	case k >= history.PollStart && k <= history.PollEnd, k >= history.Arrived && k <= history.Aborted:
		return ofPoll
	case k == history.RenewStart, k == history.Renewed, k == history.RenewFailed, k == history.RedisExtended:
		return ofRenewal
	}
	return ofLease
}

// evidence returns the events that explain a break: the last ones of its lease and of all, the fault that caused it, and what followed.
func (w *world) evidence(b *breach) []history.Event {
	var before [ofAll + 1][]history.Event
	var after []history.Event
	for n := range w.seen {
		e := w.record.At(int(n))
		of := categoryOf(&e, b.session)
		switch {
		case of == ofNone, of == ofAll && e.T < b.at-2*int64(w.TTL), of == ofFault && n < b.seen: // of earlier faults only the cause counts
		case n < b.seen:
			before[of] = append(before[of], e)
		case len(after) < afterLen && followsUp(&e, of):
			after = append(after, e)
		}
	}
	var all []history.Event
	for of, events := range before {
		all = append(all, events[max(0, len(events)-beforeLen[of]):]...)
	}
	if b.by != nil {
		all = append(all, b.by.event())
	}
	all = append(all, after...)
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	return all
}

// followsUp reports whether the event may explain a break after it happened. Renewals and the starts and ends of polls do not.
func followsUp(e *history.Event, of category) bool {
	routine := e.Kind == history.PollStart || e.Kind == history.PollEnd || e.Kind == history.Served
	return of == ofLease || of == ofAll || of == ofFault || of == ofPoll && !routine
}
