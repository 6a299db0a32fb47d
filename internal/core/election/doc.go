// Package election contains the rules of leader election on one lease: the states of a member, and the events that it publishes. The
// lease, its fence and its trust window are internal/core's; a Machine gets their changes as inputs.
//
// A Machine is pure, like a core: Step takes one Input and returns Effects; time and Redis' answers arrive in inputs. It is not safe for
// concurrent use. An instance has one Machine for each election that it takes part in.
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
// # The events of each transition, in this order, each once
//
//	FOLLOWER  → CANDIDATE   StateChanged
//	CANDIDATE → LEADER      StateChanged, LeadershipAcquired
//	CANDIDATE → FOLLOWER    StateChanged, ElectionFailed
//	LEADER    → FOLLOWER    StateChanged, LeadershipLost
//
// An attempt that the core delays, because Redis does not answer, passes through CANDIDATE as a failed one. While no holder of the lease
// is known and attempts fail, there is one attempt in each cycle.
//
// A leader whose renewal failed stays LEADER while its window is open, because nobody else can lead before its end. It begins no new
// work. If a renewal succeeds, the same term goes on, without a transition; if the window ends, the leader becomes FOLLOWER.
package election
