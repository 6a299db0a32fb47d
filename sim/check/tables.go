package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// tables holds what happened to one lease, in order of time. Rules ask at the end, when all ends are known. The number of events until then
// (seen) orders rows of one time, and leads to the events around a row in the history.
type tables struct {
	history  []*term  // all terms, also those that are over
	grants   []*grant // as Redis shows them; without an owner if it is unknown from then on
	reported []*grant // as nodes report them, if the grant was not over by then
	beyond   []window
	polls    []*poll
	serving  []*poll          // accepted polls without an answer yet
	started  map[string]int64 // reported starts of polls that have not arrived yet, by instance
}

// window is a trust window that an instance reported, beyond the end of the lease as Redis had shown it by then.
type window struct {
	inst  string
	fence int64
	at    int64
	until int64
	seen  int32
	grant *grant
	end   int64 // end of the grant, as shown by then
	shown int64 // when Redis showed an extension that covers it; never: not yet
}

// poll is a poll that reached the target.
type poll struct {
	n       int64
	inst    string
	fence   int64
	at      int64
	started int64 // its start, as its instance reported it; never: it did not
	seen    int32
	hungUp  int32 // number of events until its instance reported that it cancelled the poll; 0: it did not
	refused bool
	broken  bool    // it is reported as a break
	aborted bool    // the client hung up before the answer
	meets   []*poll // polls that the target still served as it arrived
	end     int64   // never: not seen
}

// belief is a time in which an instance trusts its term.
type belief struct {
	from, to int64 // to may be later than now; never: until it says otherwise
	seen     int32
}

// tabulate adds the event to the tables of its lease.
func (w *world) tabulate(e *history.Event) {
	s := w.subject
	switch e.Kind {
	case history.Acquired, history.Renewed:
		w.reports(s, e)
	case history.RedisExtended:
		s.covers(e)
	case history.PollStart:
		if s.started == nil {
			s.started = map[string]int64{}
		}
		s.started[e.Instance] = e.T
	case history.PollCancelled:
		for _, p := range s.serving {
			if p.inst == e.Instance && p.hungUp == 0 && e.T > p.at {
				p.hungUp = w.seen
			}
		}
	case history.Arrived, history.Rejected:
		p := &poll{
			n: e.N, inst: e.Instance, fence: e.Fence, at: e.T, started: s.takeStart(e.Instance), seen: w.seen,
			refused: e.Kind == history.Rejected, end: never,
		}
		if s.polls = append(s.polls, p); !p.refused {
			p.meets = slices.Clone(s.serving)
			s.serving = append(s.serving, p)
		}
	case history.Served, history.Aborted:
		s.serving = slices.DeleteFunc(s.serving, func(p *poll) bool {
			if p.n == e.N {
				p.end, p.aborted = e.T, e.Kind == history.Aborted
			}
			return p.n == e.N
		})
	}
}

// covers records which windows the extension covers.
func (s *session) covers(e *history.Event) {
	for i := range s.beyond {
		if x := &s.beyond[i]; x.shown == never && e.Until+int64(stampAllowance) >= x.until {
			x.shown = e.T
		}
	}
}

// takeStart removes and returns the start of the instance's next poll. It returns the constant never if no start was reported.
func (s *session) takeStart(inst string) int64 {
	at, ok := s.started[inst]
	if delete(s.started, inst); !ok {
		return never
	}
	return at
}

func (w *world) reports(s *session, e *history.Event) {
	k, acquired := s.granted, e.Kind == history.Acquired
	if k != nil && k.reporter == "" && acquired && e.T < k.until {
		k.reporter = e.Instance
	}
	if k != nil && k.until != 0 && e.Until > k.until+int64(stampAllowance) && cmp.Or(k.owner, k.reporter) == e.Instance {
		s.beyond = append(s.beyond, window{e.Instance, e.Fence, e.T, e.Until, w.seen, k, k.until, never})
	}
	if n := len(s.reported); acquired && (e.Until == 0 || e.Until > e.T) && (n == 0 || e.Fence == 0 || e.Fence >= s.reported[n-1].fence) {
		s.reported = append(s.reported, &grant{owner: e.Instance, fence: e.Fence, since: e.T, seen: w.seen})
	}
}

// grantedUntil returns the end of the last grant to the instance before at; 0: unknown.
func (s *session) grantedUntil(i *instance, at int64) int64 {
	for _, k := range slices.Backward(s.grants) {
		if k.since <= at && cmp.Or(k.owner, k.reporter) == i.id {
			return k.until
		}
	}
	return 0
}

// part names an instance and its fence as a part of a break.
func (w *world) part(s *session, inst string, fence int64) *term {
	return &term{session: s, inst: w.instance(inst), fence: fence}
}
