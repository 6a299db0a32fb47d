package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// node is a slot, in which one process runs after the other.
type node struct {
	name    string
	current *instance
	exits   int        // number of its processes that have ended
	freezes []span     // the last one ends never while it lasts
	asked   *injection // the clean stop in progress
	killer  *injection // the injected crash whose exit has not been seen yet
}

// instance is one process, under the ID that it reports.
type instance struct {
	id       string
	node     *node // nil until its first report
	process  *node // node whose process reports under this ID
	exits    int   // of that node, while that process lives
	ready    bool
	since    int64
	gone     bool // stopped or exited
	stopped  bool // it reported its stop (G3)
	tells    bool // it reports fences as it acquires (G3)
	killed   bool
	killer   *injection // the crash of the plan before its end; nil: none
	leave    *injection // the clean stop that was requested of it; nil: none
	polls    int
	idle     int64                 // end of the last of them
	asks     bool                  // it queries Redis before each use, and trusts its lease for that use only
	sends    bool                  // it reports the start of a renewal
	held     map[string]*term      // open terms, by session
	renewals map[*session]*renewal // G4
	member   member                // E6
}

// session is one polling target with the state of all checkers: in one place, because ten thousand sessions fit no cache.
type session struct {
	id      string
	exists  bool
	paused  bool
	added   bool  // SessionAdded was seen, so addedAt is valid
	addedAt int64 // when it was added or resumed

	polled   polled      // G8
	pollers  []*instance // G13: instances that report running polls of it
	fences   []fenceSet  // G3
	takeover *takeover   // G5; nil: no takeover
	returns  []*recovery // G9: returns of Redis since which it has not been polled

	tables
	terms   []*term // open terms
	last    *term   // the term that began last, open or not
	granted *grant  // the lease as Redis holds it; nil: no known holder
	before  *grant  // the grant before that, of any holder; nil: none
	left    span    // when Redis last held a lease of an instance that is gone, as far as that is over
	deletes []*injection
}

// sessions holds all sessions of a history, by ID and in the order of their first mention.
type sessions struct {
	all  []*session
	byID map[string]*session
}

func (s *sessions) sorted() []*session {
	return slices.SortedFunc(slices.Values(s.all), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}

// grant is a lease as Redis holds it. It is known from its grant until the key goes or the tap goes down.
type grant struct {
	holder   string // value of its key: an instance's ID, or a token
	since    int64
	until    int64  // 0: not seen
	passed   bool   // E5: its end is judged
	reporter string // of a token, the instance that reported acquired while Redis held it; "": none yet

	owner    string // the holder, if it is an instance's ID; "": unknown
	fence    int64  // of a reported grant
	seen     int32
	snapshot bool  // it was granted before the view of Redis was complete
	gone     int64 // when Redis ceased to show it; never: not yet
}

func (w *world) grants(e *history.Event) {
	s := w.subject
	switch e.Kind {
	case history.RedisGranted:
		w.freed(s)
		k := &grant{holder: e.Instance, since: e.T, until: e.Until, seen: w.seen, snapshot: e.Reason == snapshotReason, gone: never}
		if i := w.instances[k.holder]; i != nil && i.node != nil {
			k.owner = k.holder
		}
		if s.grants = append(s.grants, k); k.holder != "" {
			s.granted = k
		}
	case history.RedisExtended:
		if s.granted != nil && s.granted.until != 0 {
			s.granted.until = max(s.granted.until, e.Until)
		}
	case history.RedisDeleted:
		w.freed(s)
	case history.RedisFlushed, history.TapDown:
		unknown := &grant{since: e.T, seen: w.seen}
		for _, s := range w.sessions.all {
			s.left = w.leftBehind(s) // the key may still exist; the next snapshot shows it
			s.grants = append(s.grants, unknown)
			s.gives(w.now)
		}
	}
}

func (w *world) freed(s *session) {
	if k := s.granted; k != nil && w.gone(k.holder) {
		s.left = span{w.leftBehind(s).from, w.now}
		w.rest.change(w.Settle()) // the first instance that acquires it may hand it over
	}
	s.gives(w.now)
}

// gives records that Redis shows the lease's grant no more.
func (s *session) gives(now int64) {
	if s.granted != nil {
		s.granted.gone = now
		s.before, s.granted = s.granted, nil
	}
}

// gone reports whether the instance with that ID has stopped or ended.
func (w *world) gone(id string) bool {
	i := w.instances[id]
	return i != nil && i.gone
}

// leftBehind returns the time in which Redis holds, or last held, a lease of an instance that is gone.
func (w *world) leftBehind(s *session) span {
	k := s.granted
	switch {
	case k == nil || !w.gone(k.holder):
		return s.left
	case s.left.to >= k.since: // the same lease, or one that follows at once
		return span{s.left.from, k.until}
	}
	return span{k.since, k.until}
}

func (s *session) unpaused() bool { return s.exists && !s.paused }

// lost returns the end of a lease that Redis holds but its owner lost; 0 if there is no such lease.
func (s *session) lost(now int64) int64 {
	if s.granted == nil || s.granted.until <= now || s.owner(now) != nil {
		return 0
	}
	return s.granted.until
}

// owner returns the term that owns the session now, even if its instance doubts it; nil if there is none.
func (s *session) owner(now int64) *term {
	for i := len(s.terms) - 1; i >= 0; i-- {
		if t := s.terms[i]; !t.passed && (t.until == 0 || t.until > now) {
			return t
		}
	}
	return nil
}

// term is one unbroken ownership, as its instance sees it.
type term struct {
	session     *session
	inst        *instance
	fence       int64
	since       int64
	until       int64 // end of the trust window; 0: the node reports none
	seen        int32
	beliefs     []belief
	doubt       bool // a renewal failed and none has succeeded since
	over        bool
	passed      bool         // another instance has acquired the lease since, with a higher fence
	how         ending       // valid if over
	unsaid      bool         // no acquisition was reported
	confirmedAt int64        // when its owner last reported that it has the lease
	injections  []*injection // faults that hit it since the last renewal, or that are still open
	challenged  string       // challenge of the owner from which it took over; "": none
}

type ending uint8

const (
	endReplaced ending = iota // by a new term of the same instance
	endLost
	endReleased
	endExited
)
