// Package intent holds the rules of a worker of intents, pure: which leases a session takes in which order, when its
// pipeline may begin and must end, what is written of it. Step takes one Event and returns the Effects that follow; time
// and answers arrive inside events. The same rules run under the production worker and in virtual time.
//
// # A session, as one worker sees it
//
//	entry ─▶ service lease ─▶ tuner lease ─▶ write STARTING ─▶ launch ─▶ write RUNNING ─▶ running
//	             │ busy           │ none          │ not ours                                │ asked to stop, leases
//	             ▼                ▼               ▼                                         ▼ ending, work returned
//	        write ENDED ◀──── release both ◀──────────────────────────────────────── halt, wait for its return
//
// # What every rule rests on
//
//   - Both leases or none: whatever ends a start gives back all it has (I1).
//   - A pipeline is asked to stop Grace before the trust in either lease ends, and its leases are released only after it
//     has returned; one that does not return is abandoned with its leases, which expire (I1).
//   - Every write carries the fence it stands on; a store refuses it once a newer term has written, the session ended, or
//     another worker has taken over what does not run yet, unless Redis has the lease on its service for who writes.
//   - ENDED is written after the leases were released, so who reads it can start again at once.
//   - The entry on the bus is acknowledged by the very write that makes the session RUNNING or ENDED (I3).
package intent
