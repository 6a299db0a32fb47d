// Package policy decides what happens around the rules of a lease (internal/core): until when a term is believed, which drops leave
// together, when a poll of a session begins and ends, and who of several that wait for a lease gets it. It is pure: times come as
// arguments and nothing waits. The production shell (lease, lease/poll, lease/intent/worker) carries its decisions out with
// goroutines and sockets, the virtual engine in its event loop, so that seeds of virtual time judge what production does.
package policy
