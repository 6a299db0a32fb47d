// Package lease shares work between replicas. It has named leases on Redis with a fence, a trust window that is decided locally, and
// placement that gives every instance its share.
//
// # What is not promised
//
// No lease can stop a request of a process that froze between its check and its send. Send the fence with every write and refuse older
// fences at the target: then the late request does no harm.
//
// Redis' wall clock must not step forward by more than the margin (1 % of the TTL, at least 5 ms) while a lease lives, and the clocks of
// successive masters must differ by less than a TTL. The library does not notice if a machine is suspended and its wall clock is set back
// by as much between two renewals. If somebody deletes a lease key or an eviction policy takes it, two owners overlap for at most one
// renewal interval and its timeout; even then, nothing with an older fence is accepted. Behind Sentinel and on a cluster, a master that is
// cut off and does not learn of the failover may renew leases that the next master grants, unless [Config.Replicas] is set
// (docs/replicas.md).
//
// # What is promised
//
// No two instances believe in the same lease at once (G1). The fences of a lease only grow (G3). If a renewal fails or is not answered,
// new work stops at once and running work at the end of the window (G4). All this also holds when Redis is restarted empty or flushed
// (G9). docs/guarantees.md defines these numbers.
//
// # Manager and Keeper
//
// A [Manager] shares sessions: with [Config.Sessions] it places them on the live instances by itself, without it they are acquired on
// demand. A [Keeper] holds leases of any name for anything: leadership, a slot, a job. Both are safe for concurrent use.
//
// An instance runs the same few goroutines however many leases it holds: the loop that decides, ten workers that send its requests, one
// that hears the other instances, one that writes the log, and one for each listener of Subscribe.
//
// # The trust window
//
//	        sent                                  until = sent + TTL − margin
//	owner    |--- acquire ---|=== believes ===========|
//	Redis            |---------------- the key lives ----------------|
//	others                                                           | may acquire
//
// An attempt is timestamped before it is sent and trusted from then on, so a slow answer never stretches the window. The instance checks
// the end of the window on both of its clocks, because the monotonic one stops while a machine is suspended.
package lease
