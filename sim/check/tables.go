package check

import (
	"cmp"
	"slices"
	"sort"

	"github.com/leasestorm/leasestorm/sim/history"
)

// tables holds what happened to one lease, in order of time. The rows of a judged run are kept, so that a rule can ask at the end, when all
// ends are known. The number of events (seen) orders rows of one time.
type tables struct {
	history  []*term // all terms, also those that are over
	windows  []window
	grants   []*grant // as Redis shows them; without an owner if it is unknown from then on
	reported []*grant // as nodes report them, if the grant was not over by then
	polls    []*poll

	serving []*poll          // accepted polls without an answer yet
	begun   map[string]int64 // start of each instance's last reported poll, until that poll arrives
}

// window is a trust window that an instance reported.
type window struct {
	inst  string
	fence int64
	at    int64
	until int64 // 0: none reported
	seen  int32
	grant *grant // as Redis showed it then; nil: unknown
}

// poll is a poll that reached the target.
type poll struct {
	n         int64
	inst      string
	fence     int64
	begun     int64 // its start, as its node reported it; 0: unknown
	at        int64 // its arrival
	seen      int32
	refused   bool
	answer    history.Kind // Served or Aborted; 0: none
	answered  int64        // never: not answered
	cancelled int64        // when its node reported that it cancelled it; 0: it did not
	meets     []*poll      // polls that the target still served as it arrived
	broken    bool         // it is reported as a break
}

// shownEnd is the end of a grant, as Redis shows it from a time on.
type shownEnd struct{ at, until int64 }

// belief is a time in which an instance trusts its term.
type belief struct {
	from, to int64 // to is never while it lasts
	seen     int32
}

// tabulate adds the event to the tables of its lease.
func (w *world) tabulate(e *history.Event) {
	s := w.subject
	switch e.Kind {
	case history.RedisGranted:
		k := cmp.Or(s.granted, &grant{since: e.T})
		k.seen, k.snapshot, k.ends = w.seen(), e.Reason == snapshotReason, []shownEnd{{e.T, e.Until}}
		if i := w.instances[e.Instance]; i != nil && i.node != nil {
			k.owner = e.Instance
		}
		s.grants = append(s.grants, k)
	case history.RedisExtended:
		if k := s.granted; k != nil {
			k.ends = append(k.ends, shownEnd{e.T, k.until})
		}
	case history.RedisFlushed, history.TapDown:
		for _, x := range w.sessions.all {
			x.grants = append(x.grants, &grant{since: e.T, seen: w.seen()})
		}
	case history.Acquired, history.Renewed:
		if k := s.granted; k != nil && k.reporter == "" && e.Kind == history.Acquired && e.T < k.until {
			k.reporter = e.Instance
		}
		s.windows = append(s.windows, window{e.Instance, e.Fence, e.T, e.Until, w.seen(), s.granted})
		if n := len(s.reported); e.Kind == history.Acquired && (e.Until == 0 || e.Until > e.T) &&
			(n == 0 || e.Fence == 0 || e.Fence >= s.reported[n-1].fence) {
			s.reported = append(s.reported, &grant{owner: e.Instance, fence: e.Fence, since: e.T, seen: w.seen()})
		}
	case history.PollStart:
		if s.begun == nil {
			s.begun = map[string]int64{}
		}
		s.begun[e.Instance] = e.T
	case history.PollCancelled:
		for _, p := range s.serving {
			if p.inst == e.Instance && p.cancelled == 0 {
				p.cancelled = e.T
			}
		}
	case history.Arrived, history.Rejected:
		p := &poll{
			n: e.N, inst: e.Instance, fence: e.Fence, begun: s.begun[e.Instance], at: e.T, seen: w.seen(),
			refused: e.Kind == history.Rejected, answered: never,
		}
		delete(s.begun, e.Instance)
		s.polls = append(s.polls, p)
		if !p.refused {
			p.meets = slices.Clone(s.serving)
			s.serving = append(s.serving, p)
		}
	case history.Served, history.Aborted:
		if i := slices.IndexFunc(s.serving, func(p *poll) bool { return p.n == e.N }); i >= 0 {
			s.serving[i].answer, s.serving[i].answered = e.Kind, e.T
			s.serving = slices.Delete(s.serving, i, i+1)
		}
	}
}

// endAt returns the end of the grant as Redis had shown it by at.
func (k *grant) endAt(at int64) int64 {
	i := sort.Search(len(k.ends), func(i int) bool { return k.ends[i].at > at })
	if i == 0 {
		return 0
	}
	return k.ends[i-1].until
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

// windowAt returns the end of the window that the instance had last reported after so many events; 0: none.
func (s *session) windowAt(i *instance, seen int32) int64 {
	for _, x := range slices.Backward(s.windows) {
		if x.seen <= seen && x.inst == i.id {
			return x.until
		}
	}
	return 0
}

// part names an instance and its fence as a part of a break.
func (w *world) part(s *session, inst string, fence int64) *term {
	return &term{session: s, inst: w.instance(inst), fence: fence}
}
