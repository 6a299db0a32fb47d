package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// The number of events of each sort shown before a break, and after it.
const (
	leaseLen   = 8
	renewalLen = 2
	ringLen    = 10
	pollsLen   = 4
	afterLen   = 6
)

type ring struct {
	events []history.Event
	next   int // index of the oldest event, once the ring is full
}

func (r *ring) add(e *history.Event, most int) {
	if len(r.events) < most {
		r.events = append(r.events, *e)
		return
	}
	r.events[r.next] = *e
	r.next = (r.next + 1) % most
}

func (r *ring) all() []history.Event { return slices.Concat(r.events[r.next:], r.events[:r.next]) }

const expired = "expired"

// exhibit returns the event as a report shows it. A deletion after the lease's end is Redis' own: the key expired.
func (w *world) exhibit(e *history.Event) *history.Event {
	if e.Kind != history.RedisDeleted || e.Reason != "" {
		return e
	}
	if k := w.subject.granted; k == nil || k.until == 0 || e.T < k.until {
		return e
	}
	shown := *e
	shown.Reason = expired
	return &shown
}

// keep remembers the event as evidence for later breaks.
func (w *world) keep(e *history.Event) {
	e = w.exhibit(e)
	switch {
	case e.Kind == history.AcquireFailed: // explains nothing, and every instance reports it
		return
	case e.Session != "" && e.Kind != history.FaultStart && e.Kind != history.FaultEnd:
		switch s := w.subject; {
		case isPoll(e.Kind):
			s.polls.add(e, pollsLen)
		case isRoutine(e.Kind):
			s.routine.add(e, renewalLen)
		default:
			s.recent.add(e, leaseLen)
		}
	case e.Kind >= history.RedisFlushed && e.Kind <= history.RedisUp, e.Kind == history.RedisEpoch, e.Kind == history.Ready,
		e.Kind == history.Stopped:
		w.recent.add(e, ringLen)
	default:
		return
	}
	for i := 0; i < len(w.followers); i++ {
		if f := w.followers[i]; f.wants(e) {
			f.after = append(f.after, *e)
			if len(f.after) == afterLen {
				w.followers = slices.Delete(w.followers, i, i+1)
				i--
			}
		}
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

type follower struct {
	session string
	before  []history.Event
	after   []history.Event
}

// follow begins the evidence of a break: the recent events, and the faults that hit the session's owners at any time.
func (w *world) follow(s *session) *follower {
	f := &follower{before: w.recent.all()}
	f.before = slices.DeleteFunc(f.before, func(e history.Event) bool { return e.T < w.now-2*int64(w.TTL) })
	if s != nil {
		f.session = s.id
		for _, t := range append(slices.Clone(s.terms), s.last) {
			f.causes(t)
		}
		f.before = slices.Concat(f.before, s.recent.all(), s.polls.all(), s.unusual())
		slices.SortStableFunc(f.before, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	}
	w.followers = append(w.followers, f)
	return f
}

// unusual returns the renewals that are worth showing: failed ones, those of non-owners, and extensions that the owner did not request.
func (s *session) unusual() []history.Event {
	owner := ""
	switch {
	case s.granted != nil:
		owner = s.granted.holder
	case s.last != nil:
		owner = s.last.inst.id
	}
	all := s.routine.all()
	own := func(e history.Event) bool {
		return e.Instance == owner && (e.Kind == history.RenewStart || e.Kind == history.Renewed)
	}
	asked := slices.ContainsFunc(all, own)
	return slices.DeleteFunc(all, func(e history.Event) bool { return own(e) || asked && e.Kind == history.RedisExtended })
}

func (f *follower) causes(t *term) {
	if t == nil {
		return
	}
	for _, inj := range t.injections {
		e := history.Event{T: inj.start, Kind: history.FaultStart, N: inj.index, Reason: string(inj.Kind)}
		if inj.node != nil {
			e.Node = inj.node.name
		}
		if !f.shows(&e) {
			f.before = append(f.before, e)
		}
	}
}

func (f *follower) shows(e *history.Event) bool {
	for i := range f.before {
		if o := &f.before[i]; o.Kind == e.Kind && o.N == e.N {
			return true
		}
	}
	return false
}

// wants reports whether the event may explain the break after it happened. Renewals and the starts and ends of polls do not.
func (f *follower) wants(e *history.Event) bool {
	switch e.Kind {
	case history.PollStart, history.PollEnd, history.Served, history.AcquireFailed:
		return false
	}
	return (e.Session == f.session || e.Session == "") && !isRoutine(e.Kind)
}

func (f *follower) evidence() []history.Event {
	if f == nil {
		return nil
	}
	return append(slices.Clone(f.before), f.after...)
}
