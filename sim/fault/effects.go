package fault

// Effect is a set of a kind's effects on a fleet. The judge derives all consequences of a fault from it.
type Effect uint32

// The effects.
const (
	Instant Effect = 1 << iota // it acts only when it hits, and nothing heals it

	// On processes.
	Starts        // a process starts
	Kills         // processes die; their leases and heartbeats outlive them
	Stops         // processes are asked to stop
	Freezes       // processes do not run
	BlocksAcquire // resumed processes notice the gap and acquire nothing for a TTL
	StepsClock    // processes doubt their leases and acquire nothing for a TTL

	// On messages between a process and Redis.
	Partitions  // nothing arrives, in at least one direction
	Degrades    // messages arrive late or not always
	Lingers     // messages in transit at the end may still arrive for Ms + Jitter
	Disconnects // connections end, and new ones are possible at once

	// On Redis and its data.
	Denies    // it serves nobody for a while, or refuses some commands
	Forgets   // it returns with another run_id or without its data: a quarantine follows
	FailsOver // another server takes over, whose clock may differ
	Deletes   // the lease of one session is deleted

	// On the work.
	Holds  // the target does not answer polls in time
	Alters // the set of sessions to poll changes
	Aside  // no lease moves, and only the target notices
)

// Silences are the effects that leave a process alive but silent, or delayed.
const Silences = Freezes | Partitions | Degrades
