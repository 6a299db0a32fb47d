package check

import "github.com/leasestorm/leasestorm/sim/history"

// node is a slot: one process after the other.
type node struct {
	name     string
	current  *instance
	pid      int64
	frozen   bool
	frozenAt int64   // beginning of the last freeze; meaningful if ever
	thawedAt int64   // end of the last freeze; meaningful if ever
	ever     bool    // it was frozen at least once
	asked    *strike // the clean stop that is under way
	killer   *strike // the crash that was announced and not yet seen as an exit
}

// instance is one process, by the name it gives itself.
type instance struct {
	id     string
	node   *node // nil until a word of its own was heard
	ready  bool
	since  int64 // when it said ready
	gone   bool  // stopped or exited
	killed bool
	held   map[string]*term // by session: open terms
}

// session is one polling target.
type session struct {
	id      string
	n       int // sessions are numbered as they are met
	exists  bool
	paused  bool
	addedAt int64 // when it came or was resumed
	added   bool  // SessionAdded was seen, so that addedAt means something
	terms   []*term
	last    *term   // the term that began last, open or not
	recent  ring    // of what befell its lease
	polls   ring    // of its polls
	deletes []int64 // times at which the plan deleted its key
}

// rows is what a checker keeps of each session.
type rows[T any] []*T

// get returns what is kept of the session, nil if nothing is.
func (r rows[T]) get(s *session) *T {
	if s == nil || s.n >= len(r) {
		return nil
	}
	return r[s.n]
}

func (r *rows[T]) set(s *session, v *T) {
	for s.n >= len(*r) {
		*r = append(*r, nil)
	}
	(*r)[s.n] = v
}

// of returns what is kept of the session, a zero value to be filled in if nothing was.
func (r *rows[T]) of(s *session) *T {
	v := r.get(s)
	if v == nil {
		v = new(T)
		r.set(s, v)
	}
	return v
}

// grant is a lease as Redis holds it. It is known from a grant until the tap goes down or the key goes.
type grant struct {
	holder string
	until  int64 // 0: it was not seen
}

// grants takes note of what Redis did to a lease.
func (w *world) grants(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted:
		w.granted.set(w.subject, &grant{e.Instance, e.Until})
	case history.RedisExtended:
		if l := w.granted.get(w.subject); l != nil && l.until != 0 {
			l.until = max(l.until, e.Until)
		}
	case history.RedisDeleted:
		w.granted.set(w.subject, nil)
	case history.RedisFlushed, history.TapDown:
		clear(w.granted)
	}
}

// unpaused reports whether somebody should be polling it.
func (s *session) unpaused() bool { return s.exists && !s.paused }

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
	session  *session
	inst     *instance
	fence    int64
	since    int64
	until    int64 // end of the trust window; 0: the node gives none
	believes bool  // the instance trusts it now
	from     int64 // since when, if it believes
	to       int64 // when it ceased to, if it does not
	doubt    bool  // a renewal failed and none has succeeded since
	over     bool
	passed   bool  // another instance has acquired the lease since
	armed    int64 // when the timer that watches its until is due; 0: there is none
}

// ending says how a term came to its end.
type ending uint8

const (
	endReplaced ending = iota // by a new term of the same instance
	endLost
	endReleased
	endExited
)
