package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// node is a slot, in which at most one process runs at a time.
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

// session is one polling target with the state of all checkers. The state is in one place, because ten thousand sessions do not fit
// into a CPU cache.
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

// gives records that Redis no longer shows the lease's grant.
func (s *session) gives(now int64) {
	if s.granted != nil {
		s.granted.gone = now
		s.before, s.granted = s.granted, nil
	}
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

// tables holds what happened to one lease, in order of time. Rules ask at the end, when all ends are known. The number of earlier
// events (seen) orders rows of the same time, and is used to find the events around a row in the history.
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

func (s *session) heldBy(i *instance) *term {
	if i == nil {
		return nil
	}
	return i.held[s.id]
}

// believes reports whether the instance trusts the term at that time.
func (t *term) believes(at int64) bool {
	return len(t.beliefs) > 0 && t.beliefs[len(t.beliefs)-1].to > at
}

// believesSince returns the start of the last belief.
func (t *term) believesSince() int64 { return t.beliefs[len(t.beliefs)-1].from }

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

// grantedUntil returns the end of the last grant to the instance before at; 0: unknown.
func (s *session) grantedUntil(i *instance, at int64) int64 {
	for _, k := range slices.Backward(s.grants) {
		if k.since <= at && cmp.Or(k.owner, k.reporter) == i.id {
			return k.until
		}
	}
	return 0
}

// thawed ends a freeze. The end of a frozen process ends it too, so that rules see the process as frozen until its last moment.
func (n *node) thawed(now int64) {
	if n.frozen() {
		n.freezes[len(n.freezes)-1].to = now
	}
}

// lastFreeze returns the last freeze of the node's process that began by at; an empty span if there was none.
func (n *node) lastFreeze(at int64) span {
	if n != nil {
		for _, f := range slices.Backward(n.freezes) {
			if f.from <= at {
				return f
			}
		}
	}
	return span{to: -never}
}

func (n *node) frozen() bool { return n.lastFreeze(never).to == never }

// frozenWithin reports whether the node's process was frozen at any moment between from and now.
func (n *node) frozenWithin(from int64) bool { return n.lastFreeze(never).to >= from }

// leases returns the sessions whose leases the instance holds, in order.
func (i *instance) leases() []string { return sortedKeys(i.held) }

// who names an instance by its slot, if known, and its ID.
func (i *instance) who() string {
	if i == nil {
		return "nobody"
	}
	if name := i.short(); name != i.id {
		return name + " (" + i.id + ")"
	}
	return i.id
}

// short names an instance that the text has introduced: by its slot, if it has one.
func (i *instance) short() string {
	if i.node == nil {
		return i.id
	}
	return cmp.Or(i.node.name, i.id)
}
