// Package virtual is the engine that runs the rules of internal/core against a model of their surroundings: each instance's clocks, the
// network, Redis, the processes and the polled target. One event loop with one seed uses no real clock, goroutine or map order. The same
// configuration, plan and seed give the same events, byte for byte, on any machine, thousands of times faster than real time.
//
// It writes the same history as the real engine (sim/history), for the same judge, and adds an oracle: it knows every clock, so it
// evaluates what each instance believes at each instant, without a record's rounding (Outcome.Overlaps).
//
// # What is modelled, and how
//
//   - Time: one true clock in nanoseconds. Each instance's monotonic and wall clocks have an offset, a rate error in parts per million,
//     steps of the wall clock, and suspension, which stops the monotonic clock.
//   - Network: every request and reply has its own delay, so they overtake each other. Cut links reset connections (Redis may still
//     execute pending requests), or hold bytes back, in one or both directions, until they heal. Replies may be late, twice, or never.
//   - Redis: the store's scripts as atomic steps, on a clock of its own, with Redis' rounding to milliseconds. It can be frozen, killed,
//     wiped, flushed, restarted, made read-only, or replaced by an older copy. Whether SCAN shows a key that comes or goes meanwhile is
//     drawn. A forgotten script costs one more round trip.
//   - Replicas (Config.Sentinel): servers with their own clocks, data and streams, of which several may act as masters; sentinels that
//     replace one; and clients that learn of it at different times. See replicas.go.
//   - Intents: a process runs the production API, store and membership (lease/intent, internal/membership), as routines that wait for the
//     model instead of a socket. The network faults spare clients and tuners.
//   - Process: a shell that carries out the core's tells before it sends the core's ops. It shares its own decisions, such as how long to
//     trust a term and when to poll, with the production shell (internal/policy). A quarter of the sessions have polls that
//     ignore their context.
//
// # How the model is held to the truth
//
// The scripts have fast twins in Go; Config.Lua interprets the .lua files on the same keys. The store's conformance suite and random
// sequences of ops and commands (TestModelIsLikeRedis) run on both and on a real Redis: answers, notices and keys must match after every
// step. One explored seed of a hundred runs both ways and must give the same history. A real Redis' clock cannot be driven, so in these
// tests the ends of keys and quarantine are brought nearer instead.
package virtual
