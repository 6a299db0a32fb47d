// Package redisstore keeps leases, heartbeats and fences in Redis (6.2 or later). It is the only code of the library that talks to
// Redis. It has no rules of its own: it executes one core.Op at a time, at most once, and reports the outcome.
//
// # Keys
//
//	poll:lease:<id>           owner's instance ID, PX TTL
//	poll:node:<instance>      "1", PX TTL: the heartbeat
//	{poll:lease:<id>}:fence   last fence granted, expires 24 h after its last use
//	poll:epoch                "<run_id> <end of quarantine, µs of Redis TIME>", no TTL
//	poll:epoch:group          hash, no TTL: the agreement of the instances that share the epoch. "epoch" is the epoch it
//	                          belongs to, "quarantine" is in µs; fields of later versions are kept
//	poll:notify               channel of notices; in database 3, poll:notify:3
//
// On a Redis Cluster all keys must be in one slot, so the prefixes must carry the same hash tag, such as "{poll}:lease:". A fence is
// then "{poll}:lease:<id>:fence".
//
// # What the scripts guarantee
//
//   - Acquire is atomic. Only the owner renews, and only the owner of the same term (owner and fence) releases (G10).
//   - Fences of a lease strictly increase, even if Redis lost them: a fence is never below Redis TIME in µs, nor below the
//     highest fence that the acquirer has seen (G3). Assumed: clocks of successive masters differ by less than a TTL.
//   - Every script compares its caller's epoch with that of Redis. A Redis with another run_id, or without the epoch key,
//     may have lost data. It gets a new epoch, in which nothing is granted for one quarantine, and requests of the old
//     epoch do nothing (G9).
//   - An instance never trusts an epoch that it knows to be superseded, and ends it: a returning old master begins a new one.
//
// # What the store does not notice
//
// The store does not notice that somebody deletes a single lease key, or that Redis evicts one; Check warns of eviction policies. If
// INFO is denied or shows no run_id, it does not notice a restart with data either. It does notice an empty restart and a flush.
package redisstore
