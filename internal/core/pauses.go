package core

// The pauses of a core: how long it waits before an action, in ns, and why. The state decides which pause applies; its length follows from
// the configuration alone.

// retryPause is the pause after n failures in a row. The first retry is immediate, because many causes pass at once. The cap makes the
// first acquisition succeed within a renewal interval after Redis accepts writes again.
func (c *Config) retryPause(n int) int64 {
	if n < 2 {
		return 0
	}
	return min(c.MaxProbe<<min(max(n-6, 0), 16)>>max(6-n, 0), c.Renew/4)
}

// seekShare is how many probes an instance of a replicated Redis sends in a renewal interval at most, to find a new epoch. After a
// failover owners wait for nothing else, and a probe is a single command.
const seekShare = 50

// probePause is the pause after n probes in a row without an answer.
func (c *Config) probePause(n int, replicated bool) int64 {
	pause := c.MaxProbe >> max(0, 4-n)
	if replicated {
		pause = min(pause, c.seekPause())
	}
	return max(pause, Millisecond)
}

// seekPause is the pause before a probe for a new epoch, while no attempt is due.
func (c *Config) seekPause() int64 { return max(c.Renew/seekShare, Millisecond) }

// probeTimeout is how long a probe waits for its answer, after n without one. It is shorter than that of an attempt, so that a healed path
// is used again soon. Each failure doubles it, so that a probe succeeds on a slow path, too.
func (c *Config) probeTimeout(n int) int64 {
	return min(max(c.OpTimeout/6, 50*Millisecond)<<min(n, 6), c.OpTimeout)
}

// turn is how long the instance in place k leaves a free lease to those before it. All from StaggerMax on share a turn.
func (c *Config) turn(k int) int64 { return int64(min(k, c.StaggerMax)) * c.Stagger }

// heirMoves is how many leases may change hands within HeirGrace.
const heirMoves = 600

// heirGrace is how long a lease is left to its heir: HeirGrace, and longer if many leases are waited for here, because Redis serves the
// heirs one after another. If the others did not wait for that, each would request each lease, and delay the heirs further.
func (c *Config) heirGrace(waiting int) int64 { return max(1, int64(waiting)/heirMoves) * c.HeirGrace }

// rejoinPause is how long an instance that could acquire nothing stays out of the registry, for the n-th time in a row, counted from 0.
func (c *Config) rejoinPause(n int) int64 { return c.TTL << min(n, 4) }

// discoveryPause is the discovery interval: Discovery, or longer if the discoveries of all instances, of so many sessions each, would
// otherwise exceed LookBudget.
func (c *Config) discoveryPause(sessions, instances int) int64 {
	return max(c.Discovery, int64(sessions)*int64(instances)*Second/c.LookBudget)
}

// cheapPause is the pause before a discovery that is soon if it is cheap. From 1,000 sessions on, it is no shorter than that of
// discoverFree.
func (c *Config) cheapPause(interval int64, sessions int) int64 {
	return max(interval/100, c.Discovery/10_000*int64(sessions))
}
