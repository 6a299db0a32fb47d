package core

import (
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// lease is one lease as this instance sees it. An instance has entries only for leases that it holds, wants or watches.
type lease struct {
	term.Term

	heir   string // releasing, yielding: the instance that should take it, "": the first in order; this one: none, its session is gone
	past   string // idle, acquiring: its last owner, if since is known
	holder string // idle: its owner at the last read or notice

	exp   Time // idle: when the holder's lease expires, as far as known
	since Time // yielding: when TellYield was sent; releasing: when it was given back; idle, acquiring: see Vacancy.Since

	gen uint32 // of its timer
	pos int32  // owned: index in Core.held

	session int32 // index in fleet.sessions, nobody if it is not one of them

	next  next
	cause Cause // yielding: why

	stuck      bool // work under a term has not ended, see keeper.stuck: it is not acquired before that
	want       bool // a user wants it
	wait       bool // and waits until it is held
	place      bool // placement wants it
	yielding   bool // its work is being ended
	unanswered bool // an acquire was not answered: the key may be ours
	told       bool // releasing: TellReleaseFailed was sent
	givenBack  bool // idle, acquiring: its last owner gave it back
}

// next is the planned next action on a lease. For an idle lease, its timer says when.
type next uint8

const (
	nextNothing next = iota // the answer under way decides
	nextRead                // idle: read it when the timer fires
	nextAcquire             // idle: acquire it when the timer fires
	nextAgain               // acquiring: a notice of a release arrived meanwhile; if the answer is held, acquire it again
	nextInherit             // acquiring: it was released to this instance; if the answer is held, run a discovery
	nextYield               // owned: the last discovery did not show its session; if the next does not either, end its work

	nexts
)

// The phases of a lease.
const (
	idle      = term.Idle
	acquiring = term.Acquiring
	owned     = term.Owned
	releasing = term.Releasing
)

// nextsOf lists the only valid states of a lease, by its phase.
var nextsOf = [...][nexts]bool{
	idle:      {nextNothing: true, nextRead: true, nextAcquire: true},
	acquiring: {nextNothing: true, nextAgain: true, nextInherit: true},
	owned:     {nextNothing: true, nextYield: true},
	releasing: {nextNothing: true},
}

var (
	phaseNames = [...]string{idle: "idle", acquiring: "acquiring", owned: "owned", releasing: "releasing"}
	nextNames  = [...]string{nextNothing: "nothing", nextRead: "read", nextAcquire: "acquire", nextAgain: "again",
		nextInherit: "inherit", nextYield: "yield"}
)

func (l *lease) state() string { return phaseNames[l.Phase()] + "/" + nextNames[l.next] }

// Unlisted is called for a lease in a state that nextsOf does not list. Tests and virtual time set it before they begin; in production
// it is nil.
var Unlisted func(lease, state string)

// will sets l.next; nothing else does. The caller must have set l.Phase() before.
func (l *lease) will(n next) {
	l.next = n
	if !nextsOf[l.Phase()][n] && Unlisted != nil {
		Unlisted(l.ID(), l.state())
	}
}

// vacant records since when l has no owner. The zero Vacancy means unknown. This instance does not hold l.
func (l *lease) vacant(v Vacancy) {
	l.past, l.since, l.givenBack = v.Owner, v.Since, v.GivenBack
}

// heldBy records the owner that a read of l showed, and the expiry in l.exp. For self's own key, and one without expiry, it records
// unknown.
func (l *lease) heldBy(r *Result, self string) {
	if r.PTTL <= 0 || r.Owner == self {
		l.vacant(Vacancy{})
		return
	}
	l.vacant(Vacancy{Since: l.exp, Owner: r.Owner})
}

// vacated reports whether it is known since when l, which is free, has no owner. If the key is gone before its expiry, it was deleted or
// released without a notice, at an unknown time.
func (l *lease) vacated(now Time) bool { return l.since != 0 && l.since <= now }

// vacancy returns how l, which was granted, came to have no owner; nil if unknown.
func (l *lease) vacancy(now Time) *Vacancy {
	if !l.vacated(now) {
		return nil
	}
	return &Vacancy{Since: l.since, Owner: l.past, GivenBack: l.givenBack}
}

// unwanted reports whether no user wants l, and placement does not either, or its session is gone or paused. If an attempt to
// acquire l got no answer, l is still read once, to release the lease that this attempt may have acquired.
func (l *lease) unwanted() bool {
	return !l.want && (!l.place || l.session == place.Nobody)
}
