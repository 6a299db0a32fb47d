// Package election elects one leader among any number of processes, on one Redis key, with a fence.
//
// It uses the keys, states, events and settings of the Sovereign library (Java), so that members of both see each other in
// one election. Its algorithm is another: leadership is a lease (package lease), and Sovereign's ways to a split brain are
// closed. docs/election.md shows them, each with the run in which it happened.
//
// # What is not promised
//
// A leader that is frozen between its check and its write writes late. Nothing here can stop that: send the fence along and
// let the resource refuse an older one. What package lease assumes of clocks is assumed here.
//
// A mixed fleet is as safe as its weakest member. As long as nothing breaks there is one leader at a time, of either kind.
// What a Sovereign member can still do when something breaks, and this library cannot prevent:
//
//   - cut off from Redis, or frozen, it goes on believing that it leads, without end, while another is elected;
//   - its EXPIRE has no owner: late, it prolongs the leadership of whoever leads then, a crashed one's too, so that failover
//     takes up to a TTL longer each time;
//   - its stop reads the key and deletes it afterwards: in between it may have become another's. That one finds out at its
//     next renewal and steps down; until then two lead, for RenewInterval + OpTimeout at most;
//   - when it takes a heartbeat for stale it takes the leader key by force. The same holds;
//   - it carries no fence, so a resource cannot tell its late writes; and it is elected within a quarantine, when Redis has
//     just lost its data and the old leader may still believe.
//
// Two processes must not have one instance ID. A member does not adopt a leader key in its own name that it did not ask for:
// it says so (EventDuplicateInstance) and waits. If a foreign hand deletes the key between two such processes, both can
// lead; the fence is what is left then.
//
// # What is promised
//
// No two members of this library lead at once, by their own clocks (E1); fences only grow (E3); a leader that cannot renew
// is none when its window ends, before its key can be anybody else's, and begins nothing new from the moment in which the
// renewal is overdue (E5). After a crash another leads when the key has expired, after a stop at once (E4). The leader key
// decides: a heartbeat that stands still while the key lives is told and counted, and no reason for a coup.
//
// # Keys
//
//	sovereign:leader                the leader's instance ID, PX 30,000
//	{sovereign:leader}:fence        the last fence
//	sovereign:heartbeat:<instance>  ms since the epoch, PX 35,000: the leader sets it every 10 s
//	sovereign:epoch                 "<run_id> <end of quarantine>": whether Redis is still the Redis that granted
//	sovereign:notify                channel: who took and who gave back
//
// Where all this begins on an empty Redis, nobody is elected for one TTL, or Bootstrap declares the first deployment.
//
// # States and events
//
//	           attempt               granted
//	FOLLOWER ───────────▶ CANDIDATE ─────────▶ LEADER
//	   ▲ ▲                    │                   │
//	   │ └─ held, no answer ──┘                   │
//	   └───────── window over, taken, stopped ────┘
//
// [EventKind] has what each transition publishes. A member that is refused waits for the expiry that Redis told, and for the
// notice of a release; the election interval is a safety net.
//
// # Use
//
// [Election.Run] for "do this while leading"; Start, IsLeader and Listen for everything else; [Group] for many elections in
// one process, which share connections, timers and renewals.
package election
