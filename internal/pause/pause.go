// Package pause has the pauses of a core: how long it waits before an action, in ns, and why. The state decides which pause applies; its
// length follows from the configuration alone.
package pause

const millisecond = int64(1_000_000)

// Config has the durations, in ns, that pauses follow from; core.Config explains them.
type Config struct {
	TTL, Renew, Discovery, OpTimeout, Stagger, StartDelay, Lead, HeirGrace, MaxProbe int64

	StaggerMax int
}

// Retry is the pause after n failures in a row. The first retry is immediate, because many causes pass at once. The cap makes the
// first acquisition succeed within a renewal interval after Redis accepts writes again.
func (c *Config) Retry(n int) int64 {
	if n < 2 {
		return 0
	}
	return min(c.MaxProbe<<min(max(n-6, 0), 16)>>max(6-n, 0), c.Renew/4)
}

// seekShare is how many probes an instance of a replicated Redis sends in a renewal interval at most, to find a new epoch. After a
// failover owners wait for nothing else, and a probe is a single command.
const seekShare = 50

// Probe is the pause after n probes in a row without an answer.
func (c *Config) Probe(n int, replicated bool) int64 {
	pause := c.MaxProbe >> max(0, 4-n)
	if replicated {
		pause = min(pause, c.Seek())
	}
	return max(pause, millisecond)
}

// Seek is the pause before a probe for a new epoch, while no attempt is due.
func (c *Config) Seek() int64 { return max(c.Renew/seekShare, millisecond) }

// ProbeTimeout is how long a probe waits for its answer, after n without one. It is shorter than that of an attempt, so that a healed path
// is used again soon: with the pause after it, a probe that was lost takes a quarter of a renewal interval. Each failure doubles it, so
// that a probe succeeds on a slow path, too.
func (c *Config) ProbeTimeout(n int) int64 {
	return min(max(c.OpTimeout/6, 50*millisecond)<<min(n, 6), c.OpTimeout, max(c.Renew/4-c.MaxProbe, 50*millisecond))
}

// Turn is how long the instance in place k leaves a free lease to those before it. All from StaggerMax on share a turn.
func (c *Config) Turn(k int) int64 { return int64(min(k, c.StaggerMax)) * c.Stagger }

// Heir is how long a lease is left to its heir: HeirGrace, and longer if the last answer took long, but not as long as an outage. If the
// others did not wait for a slow Redis, each would request each lease, and delay the heirs further.
func (c *Config) Heir(took int64) int64 { return max(c.HeirGrace, min(2*took, c.Discovery/10)) }

// Rejoin is how long an instance that could acquire nothing stays out of the registry, for the n-th time in a row, counted from 0.
func (c *Config) Rejoin(n int) int64 { return c.TTL << min(n, 4) }

// Patience is how long an instance that reads everything for all may take before another instance does, and how late a notice may be.
func (c *Config) Patience() int64 { return c.Discovery / 30 }
