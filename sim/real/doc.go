// Package real is the engine of storms that run on real processes, sockets and Redis.
//
// Each node is a process of its own (docs/node-protocol.md says what it must do) and talks to Redis through a toxiproxy
// of its own. The polled target is an HTTP server beside the proxies, so that a node that is cut off from Redis still
// reaches what it polls: the case that no lease survives without a trust window. What Redis granted is read from its
// replication stream, outside the proxies. Everything is stamped with one clock and goes into one history; nothing is
// judged here.
//
//	nodes ──► toxiproxy (one a node) ──► Redis ──► tap ──┐
//	  │ └──────────────► target ─────────────────────────┼──► history.Recorder
//	  └── lines on standard output ──────────────────────┘
//
// A run leaves nothing behind, however it ends: children die with the simulator's thread that started them (Linux), and
// a reaper process, which holds a pipe to the simulator, kills process groups and removes folders and keys when that
// pipe ends. Programs that use this package must call [ReaperMain] first in main.
//
// Nodes are found by ports of 127.0.0.1 below the range of ephemeral ports: a client that dials a closed port inside
// that range can be given the very same port as its own and be connected to itself.
package real
