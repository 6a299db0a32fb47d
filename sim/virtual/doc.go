// Package virtual is the engine that runs the rules of internal/core against a model of everything around them: the
// clocks of each instance, the network, Redis, the processes, the polled target. One event loop, one seed, no clock, no
// goroutine and no map order: the same configuration, plan and seed give the same events, byte for byte, on any machine,
// thousands of times faster than real time.
//
// It writes the history that the real engine writes (sim/history), so the same judge reads both. What it adds is an
// oracle: it knows every clock, so it evaluates exactly what each instance believes at each instant, without the rounding
// that a record has (Outcome.Overlaps).
//
// # What is modelled, and how
//
//   - Time: one true clock in nanoseconds. Each instance has a monotonic and a wall clock of its own with an offset, a rate
//     error in parts per million, steps of the wall clock, and suspension, during which the monotonic clock stands still.
//   - Network: every request and every reply is delayed on its own, so they overtake each other. Links are cut (connections
//     reset, what was under way may still be executed), or hold bytes back in one or both directions and deliver them late
//     when they heal. Replies may come after their deadline, twice, or never.
//   - Redis: the store's scripts as atomic steps, on a clock of its own, with milliseconds rounded as Redis rounds them.
//     It can be frozen, killed, wiped, flushed, restarted, made read-only, or replaced by an older copy of itself. What a
//     SCAN shows of keys that come or go in its course is drawn; a script that it forgot costs one more round trip.
//   - Replicas, if Redis has some (Config.Sentinel): servers with clocks, data and streams of their own, of which several may act as
//     masters; sentinels that replace one, and clients that hear of it when they do. replicas.go says what is modelled of
//     replication.
//   - Intents: a process runs the production API, store and membership themselves (lease/intent, internal/membership), as routines that
//     wait for the model where they would wait for a socket; clients and tuners stand beside the network's faults.
//   - Process: a shell that carries out what the core tells before it sends what the core asks. What it decides itself, such
//     as until when a term is believed and when a poll begins and ends, the production shell decides by the same code
//     (internal/policy). The polls of a quarter of the sessions do not look at their context.
//
// # How the model is held to the truth
//
// The scripts have twins in Go, which are fast; Config.Lua runs the .lua files themselves, in an interpreter, on the same
// keys. The store's conformance suite and random sequences of ops and commands (TestModelIsLikeRedis) run on both and on a
// real Redis side by side: answers, notices and keys must be the same after every step. One explored seed of a hundred
// runs both ways and must give the same history. What the comparison leaves out: the clock of a real Redis cannot be
// driven, so time passes in it by bringing the ends of keys and quarantine nearer.
package virtual
