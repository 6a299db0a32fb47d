// Package redisstore keeps leases, heartbeats and fences in Redis 6.2 or later. No other package of the library talks to Redis. It has no
// rules of its own: it executes one core.Op at a time, at most once, and reports the outcome.
//
// # Keys
//
//	poll:lease:<id>           owner's instance ID, PX TTL
//	poll:node:<instance>      "1", PX TTL: the heartbeat
//	{poll:lease:<id>}:fence   last fence granted, expires 24 h after its last use
//	poll:epoch                "<run_id> <end of quarantine, µs of Redis TIME>", no TTL
//	poll:epoch:group          hash, no TTL: what the instances that share the epoch agreed on. "epoch" is the epoch,
//	                          "quarantine" is in µs. Fields of later versions are kept.
//	poll:notify               channel of notices; in database 3, poll:notify:3
//
// On a Redis Cluster, all keys need one slot, so the prefixes need one hash tag, as in "{poll}:lease:". A fence is then
// "{poll}:lease:<id>:fence".
//
// # What the scripts guarantee
//
//   - Acquire is atomic. Only the owner renews. Only the owner of the same term (owner and fence) releases (G10).
//   - Fences of a lease strictly increase, even if Redis lost them. A fence is never below Redis TIME in µs, nor below the highest fence
//     that the acquirer has seen (G3). This assumes that the clocks of successive masters differ by less than a TTL.
//   - Every script compares its caller's epoch with that of Redis. A Redis with another run_id, or without the epoch key, may have lost
//     data. It begins a new epoch, grants nothing for one quarantine and ignores requests of the old epoch (G9).
//   - An instance ends an epoch that it knows to be superseded. A returning old master therefore begins a new epoch.
//
// # What the store does not notice
//
// The store does not notice the deletion or eviction of a single lease key. Check warns of eviction policies. If INFO is denied or has no
// run_id, the store notices an empty restart and a flush, but not a restart with data.
package redisstore
