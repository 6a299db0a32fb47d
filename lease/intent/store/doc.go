// Package store keeps sessions, idempotency keys and the bus of intents in Redis (6.2 or later).
//
// # Keys
//
//	v3:session:<id>     hash: id service profile start key state reason detail stop owner slot fence tunerFence created updated
//	v3:idem:<key>       the session that a key stands for
//	v3:bus              stream of starts, consumer group "workers", one consumer a worker: type session service profile start
//	v3:dead             stream of dead letters: entry why tries, and the fields of the entry
//	v3:sessions         sorted set of all session IDs, equal scores: UUIDs of version 7 order by time
//	v3:ended            sorted set of ended sessions by the time of their end, ms
//	v3:stops            set of sessions whose stop was asked and has not taken effect
//	v3:workers          sorted set of workers by their last beat, ms; v3:worker:info describes them
//	v3:owned:<worker>   sorted set of the sessions that a worker has begun
//	v3:notify           channel: "stop <id>", "left <worker>"
//
// On a Redis Cluster all live in one slot: KeyPrefix, and the prefix of the leases, carry the same hash tag.
//
// # What the scripts guarantee
//
//   - A start is accepted whole: record, key and entry on the bus together, or nothing (I2). Sent twice it is accepted once.
//   - An entry leaves the bus in the very step that makes its session RUNNING or ENDED, or that makes it a dead letter, and
//     in no other way: the bus is as long as what is still to be done, and nothing unread is ever dropped (I3).
//   - A state is written only under a fence at least as high as the record's, and never after the end (I1).
//   - A session that ends takes its key with it.
//
// What Redis loses, this loses: a Redis that restarts without its data has forgotten what it accepted.
package store
