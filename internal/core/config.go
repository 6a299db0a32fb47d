package core

import "cmp"

// Defaults (FR-004, FR-006).
const (
	Millisecond = int64(1_000_000)
	Second      = 1000 * Millisecond

	TTLDefault       = 30 * Second
	RenewDefault     = 10 * Second
	DiscoveryDefault = 10 * Second
	BatchDefault     = 100
)

// Config is what a core needs to know. All durations are nanoseconds.
type Config struct {
	Instance    string    // instance ID
	TTL         int64     // of leases and of the heartbeat; whole milliseconds
	Quarantine  int64     // that the instance insists on beside its TTL: a group that has agreed on less is not joined
	Renew       int64     // renewal and heartbeat interval
	Discovery   int64     // interval of the full look; a safety net
	OpTimeout   int64     // an attempt without an answer for this long is unanswered
	MarginPPM   int64     // clock rate error allowed for, parts per million of TTL
	MarginMin   int64     // and at least this
	Batch       int       // items an op carries at most
	Stagger     int64     // a waiter of order k acquires k × Stagger after the first
	StaggerMax  int       // k is at most this
	Lead        int64     // a waiter reads a lease this long before the expiry it knows
	HeirGrace   int64     // how long others leave a released lease to its heir
	Place       bool      // place sessions and wait for them; else only leases on demand
	LookBudget  int64     // keys a second that all instances' looks together may read
	MaxProbe    int64     // longest pause between two probes of a silent Redis
	NoHeartbeat bool      // leases on demand only: no registry
	Placement   Placement // decides who should own what; nil: a Placer
}

// Margin is the part of a TTL that is not trusted (error of clock rate).
func (c *Config) Margin() int64 {
	return max(c.TTL/1_000_000*c.MarginPPM, c.MarginMin)
}

// WithDefaults returns c with every zero field set to its default.
func (c Config) WithDefaults() Config {
	c.TTL = cmp.Or(c.TTL, TTLDefault)
	c.Renew = cmp.Or(c.Renew, c.TTL/3)
	c.Discovery = cmp.Or(c.Discovery, c.TTL/3)
	c.OpTimeout = cmp.Or(c.OpTimeout, c.TTL/10)
	c.MarginPPM = cmp.Or(c.MarginPPM, 10_000)
	c.MarginMin = cmp.Or(c.MarginMin, 5*Millisecond)
	c.Stagger = cmp.Or(c.Stagger, 20*Millisecond)
	c.Lead = cmp.Or(c.Lead, max(25*Millisecond, c.TTL/200))
	c.HeirGrace = cmp.Or(c.HeirGrace, 60*Millisecond)
	c.LookBudget = cmp.Or(c.LookBudget, 25_000)
	c.MaxProbe = cmp.Or(c.MaxProbe, max(c.Renew/20, 10*Millisecond))
	c.Batch = cmp.Or(c.Batch, BatchDefault)
	c.StaggerMax = cmp.Or(c.StaggerMax, 6)
	return c
}

// Placement decides who should own what: for each session the instance that should take it, or -1 where its owner keeps it,
// and for each instance its share. instances are the hashes of the live instances' IDs in ascending order of the IDs; owner holds
// an index into them, or -1 for a session that is free or whose owner is not among them. It must decide alike whenever it is
// asked the same, as every instance does for itself. What it returns is valid until the next call.
type Placement interface {
	Place(s *Sessions, instances []uint64, owner []int32) (target, quota []int32)
}
