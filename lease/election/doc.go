// Package election elects one leader among any number of processes, on one
// Redis key, with a fence. Leadership is a lease (package lease).
//
// # What is not promised
//
// A leader that freezes between its check of the lease and its write may write
// after another leader was elected. Nothing here can stop that: send the fence
// with the write, and let the resource refuse older fences. Package lease's
// assumptions about clocks apply here too.
//
// Two processes must not have the same instance ID. A member does not adopt a
// leader key in its own name that it did not request: it reports
// EventDuplicateInstance and waits. If somebody deletes the key between two
// such processes, both can lead; then only the fence protects the resource.
//
// A fleet with members of another library is as safe as its weakest member:
// see "With the Sovereign library".
//
// # What is promised
//
// No two members of this library lead at once, by their own clocks (E1). Fences
// only grow (E3). A leader that cannot renew begins nothing new once the
// renewal is overdue, and stops leading when its window ends, before anybody
// else can acquire its key (E5). Another member leads when a crashed leader's
// key has expired, and at once after a stop (E4). Only the leader key decides:
// a stale heartbeat while the key lives is reported and counted, but never a
// reason to take the key.
//
// # Keys
//
//	election:leader                the leader's instance ID, PX 30,000
//	{election:leader}:fence        the last fence
//	election:heartbeat:<instance>  ms since the Unix epoch, PX 35,000;
//	                               the leader sets it every 10 s
//	election:epoch                 "<run_id> <end of quarantine>": shows
//	                               whether Redis still has its data
//	election:notify                channel for acquisitions and releases
//
// On an empty Redis, nobody is elected for one TTL, unless it is evidently new
// (docs/concepts.md) or admin.Bootstrap declares it new.
//
// # States and events
//
//	           attempt               granted
//	FOLLOWER ───────────▶ CANDIDATE ─────────▶ LEADER
//	   ▲ ▲                    │                   │
//	   │ └─ held, no answer ──┘                   │
//	   └───────── window over, taken, stopped ────┘
//
// [EventKind] lists the events of each transition. A refused member waits for
// the expiry that Redis reported, or for the notice of a release; the election
// interval is a safety net.
//
// # Use
//
// [Election.Run] calls a function while this member leads. Start, IsLeader and
// Subscribe serve everything else. [Group] runs many elections in one process,
// which share connections, timers and renewals.
//
// # With the Sovereign library
//
// With the settings of [Sovereign], members of the Sovereign library (Java) can
// take part in the same election. Without faults there is one leader at a time,
// of either library. Under faults, this library cannot prevent the following
// errors of a Sovereign member:
//
//   - When it is frozen or cut off from Redis, it goes on believing that
//     it leads, without end, while another member is elected.
//   - Its EXPIRE names no owner. A late one extends the leadership of the
//     current leader, even a crashed one, and so delays failover by up to
//     a TTL each time.
//   - Its stop reads the key and deletes it afterwards. If another member
//     has acquired the key in between, that member notices at its next
//     renewal and steps down. Until then two members lead, for at most
//     RenewInterval + OpTimeout.
//   - When it considers a heartbeat stale, it takes the leader key by
//     force. The consequence is the same.
//   - It sends no fence, so a resource cannot recognize its late writes.
//   - It is elected during a quarantine, when Redis has just lost its data
//     and the old leader may still believe that it leads.
//
// docs/election.md shows plans of faults that make Sovereign elect two leaders.
package election
