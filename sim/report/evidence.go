package report

import (
	"cmp"
	"iter"
	"slices"

	"github.com/leasestorm/leasestorm/sim/check"
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

// evidence collects the events that explain a broken guarantee.
type evidence struct {
	*check.Verdict
	before [ofAll + 1][]history.Event
	after  []history.Event
}

// Explain adds to each failed verdict the events around its largest break. events are those that the judge has read; it keeps none.
func Explain(r *check.Result, events iter.Seq2[history.Event, error]) {
	var broken []*evidence
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.Verdict == check.Fail {
			broken = append(broken, &evidence{Verdict: v})
		}
	}
	if len(broken) == 0 {
		return
	}
	n, ends := int32(0), ends{}
	for e, err := range events {
		if err != nil {
			break // the judge has reported it
		}
		ends.see(&e)
		for _, x := range broken {
			x.add(&e, n)
		}
		n++
	}
	for _, x := range broken {
		x.Evidence = x.events()
	}
}

// ends holds until when Redis has granted each session's lease.
type ends map[string]int64

// see follows the leases, and marks a deletion after a lease's end as Redis' own: the key expired.
func (x ends) see(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted, history.RedisExtended:
		x[e.Session] = e.Until
	case history.RedisDeleted:
		if end := x[e.Session]; e.Reason == "" && end != 0 && e.T >= end {
			e.Reason = expired
		}
		delete(x, e.Session)
	}
}

// categoryOf returns the sort of an event in the evidence of a break of the session; "": of no lease.
func categoryOf(e *history.Event, session string) category {
	switch k := e.Kind; {
	case k == history.FaultStart:
		return ofFault
	case k == history.FaultEnd, k == history.AcquireFailed, e.Aside(): // every instance reports a failed acquisition
		return ofNone
	case k >= history.RedisFlushed && k <= history.RedisUp, k == history.RedisEpoch, k == history.Ready, k == history.Stopped:
		return ofAll
	case session == "" || e.Session != session:
		return ofNone
	case k >= history.PollStart && k <= history.PollEnd, k >= history.Arrived && k <= history.Aborted:
		return ofPoll
	case k == history.RenewStart, k == history.Renewed, k == history.RenewFailed, k == history.RedisExtended:
		return ofRenewal
	}
	return ofLease
}

// add takes the event number n: one of the last of the lease and of all before the break, or one that followed.
func (x *evidence) add(e *history.Event, n int32) {
	of, seen := categoryOf(e, x.Around.Session), n < x.Around.Seen
	switch {
	case of == ofNone, of == ofAll && e.T < x.Around.Since, of == ofFault && seen: // of earlier faults only the cause counts
	case seen:
		last := append(x.before[of], *e)
		x.before[of] = last[max(0, len(last)-beforeLen[of]):]
	case len(x.after) < afterLen && followsUp(e, of):
		x.after = append(x.after, *e)
	}
}

func (x *evidence) events() []history.Event {
	all := slices.Concat(x.before[:]...)
	if x.Around.Fault != nil {
		all = append(all, *x.Around.Fault)
	}
	all = append(all, x.after...)
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	return all
}

// followsUp reports whether the event may explain a break after it happened. Renewals and the starts and ends of polls do not.
func followsUp(e *history.Event, of category) bool {
	routine := e.Kind == history.PollStart || e.Kind == history.PollEnd || e.Kind == history.Served
	return of == ofLease || of == ofAll || of == ofFault || of == ofPoll && !routine
}
