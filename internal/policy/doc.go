// Package policy contains the decisions of a shell around the rules of a lease (internal/core): until when a term is believed, which drops
// leave together, when a poll of a session begins and ends, and which of several callers gets a lease. It is pure: times are arguments
// and nothing waits. The production shell (lease, lease/poll, lease/intent/worker) carries out its decisions with goroutines and sockets,
// the virtual engine in its event loop. Therefore virtual time tests the decisions that production makes.
package policy
