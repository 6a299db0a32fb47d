package core

import "github.com/leasestorm/leasestorm/internal/term"

// next is the planned next action on a lease. For an idle lease, its timer says when.
type next uint8

const (
	nextNothing next = iota // the answer under way decides
	nextRead                // idle: read it when the timer fires
	nextTurn                // idle: when the timer fires, wait for this instance's turn, then acquire it
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
	idle:      {nextNothing: true, nextRead: true, nextTurn: true, nextAcquire: true},
	acquiring: {nextNothing: true, nextAgain: true, nextInherit: true},
	owned:     {nextNothing: true, nextYield: true},
	releasing: {nextNothing: true},
}

var (
	phaseNames = [...]string{idle: "idle", acquiring: "acquiring", owned: "owned", releasing: "releasing"}
	nextNames  = [...]string{nextNothing: "nothing", nextRead: "read", nextTurn: "turn", nextAcquire: "acquire", nextAgain: "again",
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
