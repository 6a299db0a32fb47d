// Package lease shares work between replicas. It provides named leases on
// Redis, each with a fence and a trust window that the owner checks locally.
// Placement gives every instance its share of the sessions.
//
// # What is not promised
//
// No lease can stop a request of a process that froze between its check and its
// send. Send the fence with every write, and refuse older fences at the target:
// then the late request does no harm.
//
// Redis' wall clock must not step forward by more than the margin (1 % of the
// TTL, at least 5 ms) while a lease lives. The clocks of successive masters
// must differ by less than a TTL. The library does not notice a suspension of
// the machine if, before the next renewal, the wall clock is set back by the
// length of the suspension.
//
// If somebody deletes a lease key, or an eviction policy removes it, two owners
// can overlap for at most RenewInterval + OpTimeout. Even then, a target that
// checks fences accepts nothing with an older fence.
//
// Behind Sentinel and on a cluster, a deposed master that does not learn of the
// failover may renew leases that the new master grants, unless
// [Config.Replicas] is set (docs/replicas.md).
//
// # What is promised
//
// No two instances believe in the same lease at once (G1). The fences of a
// lease only grow (G3). If a renewal fails or gets no answer, no new work
// begins, and running work ends with the trust window (G4). All this also holds
// when Redis is restarted empty or flushed (G9). docs/guarantees.md defines
// these numbers.
//
// # Manager and Keeper
//
// A [Manager] shares sessions. If [ManagerConfig.Sessions] is set, the managers
// place the sessions on the live instances by themselves; otherwise callers
// acquire sessions on demand. A [Keeper] holds leases of any name for anything:
// leadership, a slot, a job. Both are safe for concurrent use.
//
// The number of an instance's goroutines does not depend on the number of its
// leases: the loop that decides, ten workers that send requests, one that
// receives notices, one that writes the log, and one for each listener of
// Subscribe.
//
// # The trust window
//
//	        sent                                  until = sent + TTL − margin
//	owner    |--- acquire ---|=== believes ===========|
//	Redis            |---------------- the key lives ----------------|
//	others                                                           | may acquire
//
// The trust window is measured from the instant before the request is sent, so
// a slow answer never extends it. The instance checks the end of the window on
// its monotonic and on its wall clock, because the monotonic clock stops while
// a machine is suspended.
package lease
