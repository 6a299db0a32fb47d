// Package redisstore keeps leases, heartbeats and fences in Redis (6.2 or later). It is the only code of the library that talks to Redis.
// It has no rules of its own: it executes one core.Op at a time, at most once, and reports the outcome.
//
// # Keys
//
//	poll:lease:<id>           owner's instance ID, PX TTL
//	poll:node:<instance>      "1", PX TTL: the heartbeat
//	{poll:lease:<id>}:fence   last fence granted, expires 24 h after its last use
//	poll:epoch                "<run_id> <end of quarantine, µs of Redis TIME>", no TTL
//	poll:epoch:group          hash, no TTL: "epoch", the epoch it belongs to, and "quarantine", µs. What the instances that
//	                          share the epoch have agreed on; fields of later versions are kept
//	poll:notify               channel of notices
//
// On a Redis Cluster all keys must live in one slot, so the prefixes must carry the same hash tag, such as
// "{poll}:lease:"; a fence is then "{poll}:lease:<id>:fence".
//
// # What the scripts guarantee
//
//   - Acquire is atomic; only the owner renews, and only the owner of the very term (owner and fence) releases (G10).
//   - Fences of a lease strictly increase, also when Redis lost them: a fence is never below Redis TIME in µs, nor below
//     what the acquirer has seen (G3). Assumed: clocks of successive masters differ by less than a TTL.
//   - Every script compares the epoch that its caller knows with that of Redis. A Redis with another run_id, or without
//     the epoch key, has lost data or may have: it gets a new epoch, in which nothing is granted for the length of a
//     quarantine, and whatever was under way in the old one does nothing (G9).
//   - An instance that has seen an epoch superseded never believes it again and ends it: an old master that returns begins a new one.
//
// # What is not seen
//
// The store does not notice that somebody deletes a single lease key, or that Redis evicts one: Check warns of eviction policies. Where
// INFO is denied or shows no run_id, it does not notice a restart with data either. It does notice an empty restart and a flush.
package redisstore
