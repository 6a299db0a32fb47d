package core

// next is what becomes of a lease next. When, its timer says; a lease whose acquisition is blocked has the end of that as its time.
type next uint8

const (
	nextNothing next = iota // what is under way decides
	nextRead                // idle: at the next wake it is read
	nextTurn                // idle: at the next wake this instance's turn is waited for, and then it is acquired
	nextAcquire             // idle: at the next wake it is acquired
	nextAgain               // acquiring: a release was heard meanwhile, so if the answer says held it is acquired again
	nextInherit             // acquiring: it was released to this instance, so if the answer says held there is something else to look for
	nextYield               // owned: its session was not there at the last look, so if the next shows none either its work is ended

	nexts
)

// nextsOf are the states of a lease, by its phase: there are no others.
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

// state is what l is and does next, in a word.
func (l *lease) state() string { return phaseNames[l.phase] + "/" + nextNames[l.next] }

// Unlisted is told of a lease that comes to a state which nextsOf does not list. Tests and virtual time set it before they begin;
// nil in production.
var Unlisted func(lease, state string)

// will sets what becomes of l next, and is the only place that does. Where the phase changes, it has changed before.
func (l *lease) will(n next) {
	l.next = n
	if !nextsOf[l.phase][n] && Unlisted != nil {
		Unlisted(l.id, l.state())
	}
}
