// Package election elects one leader among any number of processes, on one Redis key, with a fence.
//
// It uses the keys, states, events and settings of the Sovereign library (Java), so that members of both see each other in one election.
// Its algorithm differs: leadership is a lease (package lease), which closes Sovereign's ways to a split brain. docs/election.md shows
// each of them with a run in which it happened.
//
// # What is not promised
//
// A leader that is frozen between its check and its write writes late. Nothing here can stop that: send the fence along and let the
// resource refuse older ones. Package lease's assumptions about clocks apply here too.
//
// A mixed fleet is as safe as its weakest member. As long as nothing breaks there is one leader at a time, of either kind. When something
// breaks, this library cannot prevent what a Sovereign member may do:
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
// Two processes must not have one instance ID. A member does not adopt a leader key in its own name that it did not request: it reports
// EventDuplicateInstance and waits. If somebody deletes the key between two such processes, both can lead; then only the fence protects
// the resource.
//
// # What is promised
//
// No two members of this library lead at once, by their own clocks (E1). Fences only grow (E3). A leader that cannot renew stops leading
// when its window ends, before anybody else can have its key, and begins nothing new once the renewal is overdue (E5). After a crash
// another member leads when the key has expired, after a stop at once (E4). The leader key decides: a stale heartbeat while the key lives
// is reported and counted, and never a reason to take the key.
//
// # Keys
//
//	sovereign:leader                the leader's instance ID, PX 30,000
//	{sovereign:leader}:fence        the last fence
//	sovereign:heartbeat:<instance>  ms since the epoch, PX 35,000: the leader sets it every 10 s
//	sovereign:epoch                 "<run_id> <end of quarantine>": whether Redis is still the Redis that granted
//	sovereign:notify                channel: who took and who gave back
//
// On an empty Redis, nobody is elected for one TTL, unless it is evidently new (docs/redis.md) or lease.Bootstrap declares it new.
//
// # States and events
//
//	           attempt               granted
//	FOLLOWER ───────────▶ CANDIDATE ─────────▶ LEADER
//	   ▲ ▲                    │                   │
//	   │ └─ held, no answer ──┘                   │
//	   └───────── window over, taken, stopped ────┘
//
// [EventKind] lists what each transition publishes. A refused member waits for the expiry that Redis reported, and for the notice of a
// release; the election interval is a safety net.
//
// # Use
//
// [Election.Run] for "do this while leading"; Start, IsLeader and Listen for everything else; [Group] for many elections in
// one process, which share connections, timers and renewals.
package election
