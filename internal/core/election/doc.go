// Package election holds the rules of leader election on one lease, and nothing else: who is what, what is told to whom,
// and when. The lease itself, its fence and its trust window are internal/core's; a Machine is told what becomes of them.
//
// A Machine is pure, as a core is: Step takes one Input and returns Effects; time and what Redis said arrive inside inputs.
// It is not safe for concurrent use. There is one for each election that an instance takes part in.
//
// # States
//
//	              an attempt is sent                 granted
//	┌──────────┐ ───────────────────▶ ┌───────────┐ ─────────▶ ┌────────┐
//	│ FOLLOWER │                      │ CANDIDATE │            │ LEADER │
//	└──────────┘ ◀─────────────────── └───────────┘            └────────┘
//	     ▲        held, failed, stopped                             │
//	     └──────────────────────────────────────────────────────────┘
//	              window over, Redis says so, stopped
//
// # What each transition publishes, in this order, each event once
//
//	FOLLOWER  → CANDIDATE   StateChanged
//	CANDIDATE → LEADER      StateChanged, LeadershipAcquired
//	CANDIDATE → FOLLOWER    StateChanged, ElectionFailed
//	LEADER    → FOLLOWER    StateChanged, LeadershipLost
//
// The table of the specification has rows that overlap (LEADER → FOLLOWER is both "LEADER → *" and "* → FOLLOWER"): a
// transition publishes the union of its rows, so StateChanged once.
//
// An attempt that the core puts off, because Redis does not answer, passes through CANDIDATE as one that failed. Where nobody
// is known to hold the lease and attempts fail, there is one in each cycle.
//
// A leader whose renewal failed stays LEADER while its window is open, because nobody else can lead before that: it begins
// nothing new, and either the same term goes on, which is no transition, or the window ends, which is.
package election
