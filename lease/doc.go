// Package lease shares work between replicas: named leases on Redis with a fence, a trust window that is decided locally,
// and placement that gives every instance its share.
//
// # What is not promised
//
// No lease can stop a request that left a process frozen between its check and its send. Carry the fence with every
// write and refuse older ones at the target: then the late request does no harm.
//
// Redis' wall clock must not step forward by more than the margin (1 % of the TTL, at least 5 ms) while a lease lives, and
// the clocks of successive masters must differ by less than a TTL. A machine that is suspended and whose wall clock is set
// back by as much between two renewals is not noticed. One lease key that a foreign hand deletes or an eviction policy
// takes costs at most an overlap of one renewal interval and its time-out; nothing with an older fence is accepted even
// then. Behind Sentinel and on a cluster, a master that is cut off and hears of no switch may have leases renewed that the next one
// grants, unless [Config.Replicas] is set (docs/replicas.md).
//
// # What is promised
//
// No two instances believe in the same lease at once (G1); fences of a lease only grow (G3); a renewal that fails or is
// not answered stops new work at once and running work at the end of the window (G4); also when Redis is restarted empty
// or flushed (G9). The numbers are those of docs/guarantees.md.
//
// # Two doors
//
// A [Manager] shares sessions: with [Config.Sessions] it places them over the live instances by itself, without it they
// are acquired on demand. A [Keeper] holds leases of any name for anything: leadership, a slot, a job. Both are safe for
// concurrent use.
//
// An instance runs the same few goroutines however many leases it holds: the loop that decides, ten workers that carry its
// requests, one that hears the other instances, one that writes the log, and one for each listener of Subscribe.
//
// # The trust window
//
//	        sent                                  until = sent + TTL − margin
//	owner    |--- acquire ---|=== believes ===========|
//	Redis            |---------------- the key lives ----------------|
//	others                                                           | may acquire
//
// An attempt is stamped before it is sent and trusted from that stamp, so a slow answer never stretches the window. Both
// clocks of the instance are held against its end: the monotonic one stands still while a machine is suspended.
package lease
