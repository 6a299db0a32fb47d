// Package leasenode is a node of the node protocol (docs/node-protocol.md) that leaves its leases to an adapter, a child process that
// speaks the lease protocol (docs/lease-protocol.md). The node does everything else: sessions, polls, timestamps and signals.
package leasenode
