package check

import (
	"cmp"

	"github.com/leasestorm/leasestorm/sim/history"
)

// node is a slot, in which one process runs after the other.
type node struct {
	name     string
	current  *instance
	pid      int64
	named    []*instance // instances whose IDs its process uses
	frozen   bool
	frozenAt int64      // start of the last freeze
	thawedAt int64      // end of the last freeze; -never: it was not frozen yet
	asked    *injection // the clean stop in progress
	killer   *injection // the injected crash whose exit has not been seen yet
}

// instance is one process, under the ID that it reports.
type instance struct {
	id      string
	node    *node // nil until its first report
	process *node // node whose process reports under this ID; nil: no living process
	ready   bool
	readies int // number of its ready messages
	since   int64
	gone    bool // stopped or exited
	stopped bool // it reported its stop (G3)
	tells   bool // it reports fences as it acquires (G3)
	killed  bool
	killer  *injection // the crash of the plan before its end; nil: none
	leave   *injection // the clean stop that was requested of it; nil: none
	polls   int
	idle    int64            // end of the last of them
	asks    bool             // it queries Redis before each use, and trusts its lease for that use only
	sends   bool             // it reports the start of a renewal
	held    map[string]*term // open terms, by session
}

// session is one polling target with the state of all checkers: in one place, because ten thousand sessions fit no cache.
type session struct {
	id      string
	exists  bool
	paused  bool
	added   bool  // SessionAdded was seen, so addedAt is valid
	addedAt int64 // when it was added or resumed

	renewals []*renewal  // G4, one per instance
	target   targeted    // G2
	turns    turns       // G2
	polled   polled      // G8
	pollers  []*instance // G13: instances that report running polls of it
	fences   fences      // G3
	takeover *takeover   // G5; nil: no takeover
	returns  []*recovery // G9: returns of Redis since which it has not been polled

	terms   []*term
	last    *term  // the term that began last, open or not
	granted *grant // the lease as Redis holds it; nil: no known holder
	before  *grant // the grant before that, of any holder; nil: none
	left    span   // when Redis last held a lease of an instance that is gone, as far as that is over
	deletes []*injection
	given   []grant // each grant that Redis showed, in order
}

// grant is a lease as Redis holds it. It is known from its grant until the key goes or the tap goes down.
type grant struct {
	holder   string // value of its key: an instance's ID, or a token
	since    int64
	until    int64  // 0: not seen
	passed   bool   // E5: its end is judged
	reporter string // of a token, the instance that reported acquired while Redis held it; "": none yet
}

func (w *world) grants(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted:
		w.freed(w.subject)
		w.subject.given = append(w.subject.given, grant{holder: e.Instance, since: e.T})
		if w.subject.granted = nil; e.Instance == "" {
			return
		}
		w.subject.granted = &grant{holder: e.Instance, since: e.T, until: e.Until}
	case history.RedisExtended:
		if l := w.subject.granted; l != nil && l.until != 0 {
			l.until = max(l.until, e.Until)
		}
	case history.RedisDeleted:
		w.freed(w.subject)
		w.subject.granted = nil
	case history.RedisFlushed, history.TapDown:
		for _, s := range w.sessions.all {
			s.left = w.leftBehind(s) // the key may still exist; the next snapshot shows it
			s.before, s.granted = cmp.Or(s.granted, s.before), nil
		}
	}
}

func (w *world) freed(s *session) {
	w.rest.freed(s.granted)
	s.before = cmp.Or(s.granted, s.before)
	if k := s.granted; k != nil && w.gone(k.holder) {
		s.left = span{w.leftBehind(s).from, w.now}
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
	believes    bool  // the instance trusts it now
	from        int64 // start of the belief, if believes
	to          int64 // end of the belief, if not believes
	doubt       bool  // a renewal failed and none has succeeded since
	over        bool
	passed      bool         // another instance has acquired the lease since, with a higher fence
	how         ending       // valid if over
	confirmedAt int64        // when its owner last reported that it has the lease
	injections  []*injection // faults that hit it since the last renewal, or that are still open
	challenged  string       // challenge of the owner from which it took over; "": none
	used        bool         // after a challenged takeover, its owner has believed in it
	armed       int64        // time of the timer for until; 0: no timer
}

type ending uint8

const (
	endReplaced ending = iota // by a new term of the same instance
	endLost
	endReleased
	endExited
)
