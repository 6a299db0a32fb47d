// Package real runs storms on real processes, sockets and Redis servers.
//
// Each node is its own process (docs/node-protocol.md lists its duties) and reaches Redis through its own toxiproxy. The polled target is
// an HTTP server beside the proxies. A node that is cut off from Redis therefore still reaches the target, and only a trust window keeps
// its lease safe then. Package stream reads the grants of Redis from its replication stream, outside the proxies. One clock stamps all events,
// which go into one history. This package judges nothing.
//
//	nodes ──► toxiproxy (one a node) ──► Redis ──► stream ──┐
//	  │ └──────────────► target ────────────────────────────┼──► history.Recorder
//	  └── lines on standard output ─────────────────────────┘
//
// A run leaves nothing behind, however it ends. On Linux, children die with the simulator's thread that started them. A reaper process
// holds a pipe to the simulator. When the pipe ends, it kills process groups and removes folders, keys and containers. Programs that use
// this package must call [ReaperMain] first in main.
//
// Proxies, target and node APIs listen on ports below the ephemeral range. A client that dials a closed port inside that range can get
// this port as its own and connect to itself.
package real
