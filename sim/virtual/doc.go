// Package virtual is the simulation engine. It runs the rules of internal/core against a model of each instance's clocks, the network,
// Redis, the processes and the polled target. One event loop with one seed uses no real clock, goroutine or map order. The same
// configuration, plan and seed give the same events, byte for byte, on any machine, thousands of times faster than real time.
//
// The engine writes the same history as the real engine (sim/history), for the same judge. It also has an oracle: it knows every clock,
// so it evaluates each instance's belief at each instant without rounding (Outcome.Overlaps).
//
// # The model
//
//   - Time (package loop): one true clock in nanoseconds. Each instance's monotonic and wall clocks have an offset, a rate error in parts
//     per million, steps of the wall clock, and suspension, which stops the monotonic clock.
//   - Network: every request and reply has its own delay, so they overtake each other. Cut links reset connections, or hold messages back
//     in one or both directions until they heal. Redis may still execute requests of a reset connection. Replies may be late, duplicated
//     or lost.
//   - Redis (package redis): scripts are atomic steps on the server's own clock, with Redis' rounding to milliseconds. Redis can be frozen,
//     killed, wiped, flushed, restarted, made read-only, or replaced by an older copy. SCAN may or may not show a key that changes
//     meanwhile. A forgotten script costs one more round trip.
//   - Replicas (Config.Sentinel): servers have their own clocks, data and streams, and several may act as masters. Sentinels replace a
//     master, and clients learn of the new one at different times. See replicas.go.
//   - Intents: a process runs the production API, store and membership (lease/intent, internal/membership) as routines that wait for the
//     model instead of a socket. Network faults do not affect clients and tuners.
//   - Process: a shell carries out the core's tells before it sends the core's ops. It shares its decisions, such as how long to trust a
//     term and when to poll, with the production shell (internal/policy). A quarter of the sessions have polls that ignore their context.
//
// # How the model is verified
//
// The scripts have fast twins in Go. With Config.Lua, an interpreter runs the .lua files on the same keys instead. The store's
// conformance suite and random sequences of ops and commands (TestModelIsLikeRedis) run on both and on a real Redis. Replies, notices and
// keys must match after every step. One explored seed in a hundred runs both ways and must give the same history. Tests cannot drive a
// real Redis' clock, so they shorten the remaining life of keys and quarantine instead.
package virtual
