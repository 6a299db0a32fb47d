package fault

// Effect is a set of what faults of a kind do to a fleet. It is all that the judge has to know of them: what follows from a fault is
// said here, once, and computed there.
type Effect uint32

// The effects.
const (
	Instant Effect = 1 << iota // it has done all that it does when it hits: nothing heals it

	// To processes.
	Starts        // one comes
	Kills         // they die without a word: what they hold, and their heartbeats, outlive them
	Stops         // they are asked to stop
	Freezes       // they stand still
	BlocksAcquire // when they go on they know that they missed something, and acquire nothing for a TTL
	StepsClock    // their clock does: they doubt what they hold, and acquire nothing for a TTL

	// To what goes between a process and Redis.
	Partitions  // nothing arrives, at least in one direction
	Degrades    // it arrives late, or not always
	Lingers     // what was under way when it is healed may still arrive for Ms + Jitter
	Disconnects // connections end, and new ones may be had at once

	// To Redis, and what it holds.
	Denies    // it does not serve anybody for a while, or refuses what is asked of it
	Forgets   // it comes back as another one (run_id, or without its data): a quarantine follows
	FailsOver // another server takes over, whose clock may be another
	Deletes   // the lease of one session goes

	// To the work.
	Holds  // the target does not answer polls in time
	Alters // the sessions that are to be polled become others
	Aside  // it moves no lease, and nobody but who it hits can tell
)

// Silences are the effects that leave a process alive but unheard, or heard late.
const Silences = Freezes | Partitions | Degrades

// Effects returns all that faults of the kind have; 0 of one that no version knows.
func (k Kind) Effects() Effect { return k.row().does }

// Has reports whether faults of the kind have at least one of the effects.
func (k Kind) Has(any Effect) bool { return k.row().does&any != 0 }

// Having returns the kinds that have at least one of the effects, of either engine, in a fixed order. The caller owns the slice.
func Having(any Effect) (out []Kind) {
	for _, k := range order {
		if k.Has(any) {
			out = append(out, k)
		}
	}
	return out
}
