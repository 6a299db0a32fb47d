// Package intent contains the rules of an intent worker: which leases a session takes in which order, when its pipeline may begin and
// must end, and which states are written. It is pure: Step takes one Event and returns the resulting Effects; time and answers arrive in
// events. The production worker and virtual time run the same rules.
//
// # A session, as one worker sees it
//
//	entry ─▶ service lease ─▶ slot lease ──▶ write STARTING ─▶ launch ─▶ write RUNNING ─▶ running
//	             │ busy           │ none           │ not ours                                │ asked to stop, leases
//	             ▼                ▼               ▼                                         ▼ ending, work returned
//	        write ENDED ◀──── release both ◀──────────────────────────────────────── halt, wait for its return
//
// # Invariants
//
//   - Both leases or none: a start that ends gives back all its leases (I1).
//   - A pipeline is asked to stop Grace before the trust in either lease ends, and its leases are released only after it
//     has returned. A pipeline that does not return is abandoned with its leases, which expire (I1).
//   - Every write carries the fence of its term. The store refuses it once a newer term has written or the session has ended. It also
//     refuses it if another worker has taken over a start that does not run yet, unless the writer holds the lease of its service in Redis.
//   - ENDED is written after the leases were released, so that a client that reads it can start again at once.
//   - The write that makes the session RUNNING or ENDED also acknowledges the entry on the bus (I3).
package intent
