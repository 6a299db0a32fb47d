package check

import (
	"cmp"
	"iter"
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

// around says which events explain a break.
type around struct {
	session string         // "": no lease broke
	seen    int32          // number of events before those that followed the break
	by      *history.Event // start of the fault that caused it; nil: unknown
	since   int64          // from then on, events that concern all leases count
	before  [ofAll + 1][]history.Event
	after   []history.Event
}

func (w *world) around(b *breach) *around {
	a := &around{seen: b.seen, since: b.at - 2*int64(w.TTL)}
	if b.session != nil {
		a.session = b.session.id
	}
	if b.by != nil {
		e := b.by.event()
		a.by = &e
	}
	return a
}

// Explain adds to each failed verdict the events around its largest break. They are those that Judge has read, which keeps none of them.
func (r *Result) Explain(events iter.Seq2[history.Event, error]) {
	if len(r.broken) == 0 {
		return
	}
	n, ends := int32(0), map[string]int64{}
	for e, err := range events {
		if err != nil {
			break // Judge has reported it
		}
		if r.replicated && e.Aside() {
			continue
		}
		switch e.Kind {
		case history.RedisGranted, history.RedisExtended:
			ends[e.Session] = e.Until
		case history.RedisDeleted: // after the lease's end it is Redis' own: the key expired
			if end := ends[e.Session]; e.Reason == "" && end != 0 && e.T >= end {
				e.Reason = expired
			}
			delete(ends, e.Session)
		}
		for _, a := range r.broken {
			a.add(&e, n)
		}
		n++
	}
	for i := range r.Verdicts {
		if a := r.broken[r.Verdicts[i].ID]; a != nil {
			r.Verdicts[i].Evidence = a.events()
		}
	}
}

// categoryOf returns the sort of an event in the evidence of a break of the session; "": of no lease.
func categoryOf(e *history.Event, session string) category {
	switch k := e.Kind; {
	case k == history.FaultStart:
		return ofFault
	case k == history.FaultEnd, k == history.AcquireFailed: // every instance reports the last
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
func (a *around) add(e *history.Event, n int32) {
	of := categoryOf(e, a.session)
	switch {
	case of == ofNone, of == ofAll && e.T < a.since, of == ofFault && n < a.seen: // of earlier faults only the cause counts
	case n < a.seen:
		last := append(a.before[of], *e)
		a.before[of] = last[max(0, len(last)-beforeLen[of]):]
	case len(a.after) < afterLen && followsUp(e, of):
		a.after = append(a.after, *e)
	}
}

func (a *around) events() []history.Event {
	all := slices.Concat(a.before[:]...)
	if a.by != nil {
		all = append(all, *a.by)
	}
	all = append(all, a.after...)
	slices.SortStableFunc(all, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	return all
}

// followsUp reports whether the event may explain a break after it happened. Renewals and the starts and ends of polls do not.
func followsUp(e *history.Event, of category) bool {
	routine := e.Kind == history.PollStart || e.Kind == history.PollEnd || e.Kind == history.Served
	return of == ofLease || of == ofAll || of == ofFault || of == ofPoll && !routine
}
