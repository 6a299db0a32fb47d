// Package store keeps sessions, idempotency keys and the bus of intents in
// Redis 6.2 or later. Only package worker uses the bus.
//
// # Keys
//
//	intent:session:<id>    hash: id service profile start key state reason detail
//	                       stop owner slot fence tunerFence created updated
//	intent:idem:<key>      the session of an idempotency key
//	intent:bus             stream of requests, consumer group "workers", a consumer
//	                       per worker: type session service profile start
//	intent:dead            stream of dead letters: entry why tries, and the fields
//	                       of the entry
//	intent:sessions        sorted set of all session IDs, equal scores: UUIDs of
//	                       version 7 are ordered by time
//	intent:waiting         sorted set of sessions on the bus
//	intent:ended           sorted set of ended sessions by end time, ms
//	intent:stops           set of sessions with a pending stop
//	intent:workers         sorted set of workers by their last beat, ms
//	intent:worker:info     hash: describes them
//	intent:owned:<worker>  sorted set of the sessions that a worker has begun
//	intent:notify          channel: "stop <id>", "left <worker>"
//	intent:lease:<name>    the leases resource:<resource> and slot:<slot>
//
// The fields service, start and tunerFence are those of Session's Resource, At
// and SlotFence. On a Redis Cluster, all keys must be in one slot, so KeyPrefix
// needs a hash tag.
//
// # What the scripts guarantee
//
//   - Redis accepts the record, key and bus entry of a request together, or
//     none of them (I2). It accepts a request that is sent twice once.
//   - An entry leaves the bus only in the step that makes its session RUNNING
//     or ENDED, or that makes it a dead letter. So the bus has exactly the
//     pending requests, and no unread entry is dropped (I3).
//   - A state is written only under a fence at least as high as the record's,
//     and never after the end (I1).
//   - A session that ends takes its key with it.
//
// If Redis loses its data, the accepted requests and sessions are lost too.
package store
