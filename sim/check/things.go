package check

import (
	"cmp"

	"github.com/leasestorm/leasestorm/sim/history"
)

// node is a slot: one process after the other.
type node struct {
	name     string
	current  *instance
	pid      int64
	named    []*instance // by whose names its process reports
	silenced int         // faults of it that go on and leave it alive but unheard
	freezing int         // of these, those that stop its process
	frozen   bool
	frozenAt int64      // beginning of the last freeze; meaningful if ever
	thawedAt int64      // end of the last freeze; meaningful if ever
	ever     bool       // it was frozen at least once
	asked    *injection // the clean stop that is under way
	killer   *injection // the crash that was announced and not yet seen as an exit
}

// instance is one process, by the name it gives itself.
type instance struct {
	id      string
	node    *node // nil until it reported something
	process *node // whose process reports by its name; nil: none that lives
	ready   bool
	readies int   // how often it said so
	since   int64 // when it said ready
	gone    bool  // stopped or exited
	stopped bool  // and said so (G3)
	tells   bool  // its fences, as it acquires (G3)
	killed  bool
	leave   *injection       // the clean stop that it was asked for; nil: none
	polls   int              // that it has begun and not ended
	idle    int64            // when the last of them ended
	asks    bool             // it asks Redis before each use, and trusts its lease for that use only
	sends   bool             // it says when it is about to renew
	held    map[string]*term // by session: open terms
}

// session is one polling target, and what each checker keeps of it: in one place, because ten thousand sessions fit no cache.
type session struct {
	id      string
	exists  bool
	paused  bool
	added   bool  // SessionAdded was seen, so that addedAt means something
	addedAt int64 // when it came or was resumed

	renewals []*renewal  // G4, one an instance
	target   targeted    // G2
	turns    turns       // G2
	polled   polled      // G8
	pollers  []*instance // G13: whose polls of it run, as they say
	fences   fences      // G3
	takeover *takeover   // G5; nil: it is none
	sampled  *sampled    // G1's model check; nil: it was not asked for

	terms   []*term
	last    *term        // the term that began last, open or not
	granted *grant       // the lease as Redis holds it; nil: nobody is known to
	before  *grant       // the one before that, of whoever held it; nil: there was none
	left    span         // when Redis last held one of somebody who was gone, as far as it is over
	key     key          // G10
	deletes []*injection // of its key, by the plan

	// The last events: of what befell its lease, of its renewals and of its polls.
	recent, routine, polls ring
}

// grant is a lease as Redis holds it. It is known from a grant until the tap goes down or the key goes.
type grant struct {
	holder   string // what its key holds: an instance's name, or a token
	since    int64
	until    int64  // 0: it was not seen
	reporter string // of a token: who said acquired while Redis held it; "": nobody yet
}

// grants follows what Redis did to a lease.
func (w *world) grants(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted:
		w.freed(w.subject)
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
			s.left = w.leftBehind(s) // it may be there still, as the next snapshot shows
			s.before, s.granted = cmp.Or(s.granted, s.before), nil
		}
	}
}

// freed is called when the session's lease ends in Redis.
func (w *world) freed(s *session) {
	w.rest.freed(s.granted)
	s.before = cmp.Or(s.granted, s.before)
	if k := s.granted; k != nil && w.outlived(k) {
		s.left = span{w.leftBehind(s).from, w.now}
	}
}

// outlived reports whether the lease is that of an instance that is gone.
func (w *world) outlived(k *grant) bool {
	i := w.instances[k.holder]
	return i != nil && i.gone
}

// leftBehind returns the time in which Redis holds, or last held, a lease of an instance that is gone.
func (w *world) leftBehind(s *session) span {
	k := s.granted
	switch {
	case k == nil || !w.outlived(k):
		return s.left
	case s.left.to >= k.since: // it is the same, or follows at once
		return span{s.left.from, k.until}
	}
	return span{k.since, k.until}
}

// unpaused reports whether somebody should be polling it.
func (s *session) unpaused() bool { return s.exists && !s.paused }

// lost returns until when Redis holds a lease that its owner lost; 0: there is none, or somebody owns it.
func (s *session) lost(now int64) int64 {
	if s.granted == nil || s.granted.until <= now || s.owner(now) != nil {
		return 0
	}
	return s.granted.until
}

// owner returns the term that owns the session now, also if its instance doubts it; nil: there is none.
func (s *session) owner(now int64) *term {
	for i := len(s.terms) - 1; i >= 0; i-- {
		if t := s.terms[i]; !t.passed && (t.until == 0 || t.until > now) {
			return t
		}
	}
	return nil
}

// term is one unbroken ownership in its instance's own eyes.
type term struct {
	session     *session
	inst        *instance
	fence       int64
	since       int64
	until       int64 // end of the trust window; 0: the node gives none
	believes    bool  // the instance trusts it now
	from        int64 // since when, if it believes
	to          int64 // when it ceased to, if it does not
	doubt       bool  // a renewal failed and none has succeeded since
	over        bool
	passed      bool         // another instance has acquired the lease since, under a higher fence
	how         ending       // if it is over
	confirmedAt int64        // when its owner last reported that it has it
	injections  []*injection // that hit it, until it is renewed after them
	challenged  string       // by what the owner was challenged from whom it was taken over; "": by nothing
	used        bool         // its owner has believed in it, after it had been challenged from another
	armed       int64        // when the timer that watches its until is due; 0: there is none
}

// ending says how a term came to its end.
type ending uint8

const (
	endReplaced ending = iota // by a new term of the same instance
	endLost
	endReleased
	endExited
)
