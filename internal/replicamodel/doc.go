// Package replicamodel is an executable model of leases on a Redis with replicas, and of the protocol by which they are to have one
// owner also while an old master lives on. docs/replicas.md states the protocol and argues for it; the library does not follow it yet.
//
// A run draws a storm from its seed: promotions of any node, replicas that move, processes that restart or freeze, links that are
// cut, messages that are late or lost, 20 TTLs long, then calm. It keeps exact books of what every client believes: two trust
// windows of one lease never overlap, and the fences of its terms rise. Nodes are modelled as far as leases can tell: replication IDs,
// offsets, partial and full synchronization, acknowledgements, WAIT, the counts of INFO stats. Times are milliseconds of real
// time; every node and every client has a clock of its own rate.
//
// A Protocol is a set of rules. Protocols has the one of the design beside those that were tried and fall short, and Mutants has it
// with one rule dropped each. A Storm is what strikes; Switches says of each of its parts whether the protocol is to stand it.
package replicamodel
