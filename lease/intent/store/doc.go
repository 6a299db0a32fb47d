// Package store keeps sessions, idempotency keys and the bus of intents in Redis 6.2 or later.
//
// # Keys
//
//	v3:session:<id>     hash: id service profile start key state reason detail stop owner slot fence tunerFence created updated
//	v3:idem:<key>       the session of an idempotency key
//	v3:bus              stream of starts, consumer group "workers", a consumer per worker: type session service profile start
//	v3:dead             stream of dead letters: entry why tries, and the fields of the entry
//	v3:sessions         sorted set of all session IDs, equal scores: UUIDs of version 7 are ordered by time
//	v3:ended            sorted set of ended sessions by end time, ms
//	v3:stops            set of sessions with a pending stop
//	v3:workers          sorted set of workers by their last beat, ms; v3:worker:info describes them
//	v3:owned:<worker>   sorted set of the sessions that a worker has begun
//	v3:notify           channel: "stop <id>", "left <worker>"
//
// On a Redis Cluster all keys are in one slot: KeyPrefix and the prefix of the leases have the same hash tag.
//
// # What the scripts guarantee
//
//   - Redis accepts the record, key and bus entry of a start together, or none of them (I2). It accepts a start that is sent twice once.
//   - An entry leaves the bus only in the step that makes its session RUNNING or ENDED, or that makes it a dead letter. So the bus has
//     exactly the pending starts, and no unread entry is dropped (I3).
//   - A state is written only under a fence at least as high as the record's, and never after the end (I1).
//   - A session that ends takes its key with it.
//
// If Redis loses its data, the accepted starts and sessions are lost too.
package store
