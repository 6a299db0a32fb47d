package core

import (
	"cmp"

	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// Defaults of Config.
const (
	DefaultTTL   = 30 * Second
	DefaultBatch = 100
)

// Config configures a Core. All durations are in nanoseconds.
type Config struct {
	Instance    string    // instance ID
	TTL         int64     // of leases and of the heartbeat; whole milliseconds
	Quarantine  int64     // shortest quarantine that this instance accepts of a group, if longer than TTL
	Renew       int64     // renewal and heartbeat interval
	Discovery   int64     // discovery interval; a safety net
	OpTimeout   int64     // time to wait for an answer
	MarginPPM   int64     // clock rate error allowed for, parts per million of TTL
	MarginMin   int64     // smallest margin
	Batch       int       // most items in an op
	Stagger     int64     // a waiter of order k acquires k × Stagger after the first
	StaggerMax  int       // largest k
	StartDelay  int64     // time before the first discovery, so that a fleet that starts at once knows each other; 0: none
	Lead        int64     // time before the known expiry of a lease at which a waiter reads it again
	HeirGrace   int64     // time in which others leave a released lease to its heir
	Place       bool      // place sessions and wait for them; else only leases on demand
	ReadAll     bool      // each discovery reads everything, as in earlier versions; for tests
	MaxProbe    int64     // longest pause between two probes in a silence
	NoHeartbeat bool      // leases on demand only: no registry
	Placement   Placement // nil: a Placer
}

// Margin returns the part of a TTL that is not trusted, because clocks run at different rates.
func (c *Config) Margin() int64 {
	t := c.terms()
	return t.Margin()
}

// terms returns the part of c that the safety kernel needs.
func (c *Config) terms() term.Config {
	return term.Config{
		Instance: c.Instance, TTL: c.TTL, Quarantine: c.Quarantine, OpTimeout: c.OpTimeout, MarginPPM: c.MarginPPM, MarginMin: c.MarginMin,
	}
}

// pauses returns the durations that pauses follow from.
func (c *Config) pauses() pause.Config {
	return pause.Config{
		TTL: c.TTL, Renew: c.Renew, Discovery: c.Discovery, OpTimeout: c.OpTimeout, Stagger: c.Stagger, Lead: c.Lead,
		HeirGrace: c.HeirGrace, MaxProbe: c.MaxProbe, StaggerMax: c.StaggerMax, StartDelay: c.StartDelay,
	}
}

// WithDefaults returns c with every zero field set to its default.
func (c Config) WithDefaults() Config {
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Renew = cmp.Or(c.Renew, c.TTL/3)
	c.Discovery = cmp.Or(c.Discovery, c.TTL/3)
	c.OpTimeout = cmp.Or(c.OpTimeout, c.TTL/10)
	c.MarginPPM = cmp.Or(c.MarginPPM, 10_000)
	c.MarginMin = cmp.Or(c.MarginMin, 5*Millisecond)
	c.Stagger = cmp.Or(c.Stagger, 20*Millisecond)
	c.Lead = cmp.Or(c.Lead, max(25*Millisecond, c.TTL/200))
	c.HeirGrace = cmp.Or(c.HeirGrace, 60*Millisecond)
	c.MaxProbe = cmp.Or(c.MaxProbe, max(c.Renew/20, 10*Millisecond))
	c.Batch = cmp.Or(c.Batch, DefaultBatch)
	c.StaggerMax = cmp.Or(c.StaggerMax, 6)
	return c
}
