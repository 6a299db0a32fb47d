// Package fault holds the faults of a storm as data: a plan says what breaks when, before anything runs, so that a run
// can be repeated, judged, shrunk and moved to another engine. The package knows no engine.
package fault

import "time"

// What RedisNoPerm takes away (Fault.Deny).
const (
	DenyFences = "fences" // the keys of the fences: every script that grants, extends or ends a lease is refused before it runs
	DenyLeases = "leases" // the keys of the leases: so are these, and those that read who holds one
	DenySet    = "set"    // the command SET: a script is refused in its middle, and what it did before stays
)

// denials are the values of Fault.Deny, in the order in which seeds draw them.
var denials = []string{DenyFences, DenyLeases, DenySet}

// Fault is one thing that breaks.
type Fault struct {
	At     time.Duration `yaml:"at"` // after the start of the storm
	Kind   Kind          `yaml:"kind"`
	Target string        `yaml:"target,omitempty"`   // "node-3", "owner" (see Owner), "redis", "session-7", or ""
	For    time.Duration `yaml:"for,omitempty"`      // until it is healed; 0 for instant faults
	Ms     int64         `yaml:"ms,omitempty"`       // the kind's own amount in milliseconds (or count for session-add)
	Jitter int64         `yaml:"jitterMs,omitempty"` // milliseconds, latency only
	KBps   int64         `yaml:"kbps,omitempty"`     // bandwidth only
	Deny   string        `yaml:"deny,omitempty"`     // redis-noperm only: DenyFences, DenyLeases or DenySet
	Lone   bool          `yaml:"-"`                  // drawn so that nothing else overlaps it and its aftermath
}

// AmountsAt returns f with those of its amounts that are times divided by speed. What was given stays given: a millisecond at
// least.
func (f Fault) AmountsAt(speed float64) Fault {
	div := func(ms int64) int64 {
		if ms > lengthMax.Milliseconds() {
			return ms // it is refused as it was given
		}
		return max(min(ms, 1), int64(float64(ms)/speed))
	}
	switch takes := f.Kind.row().takes; {
	case takes&counts != 0:
	case takes&direction != 0:
		f.Ms = div(f.Ms)
	default:
		f.Ms, f.Jitter = div(f.Ms), div(f.Jitter)
	}
	return f
}

// Lasts is how long the fault does what it does when nothing ends it sooner; 0 of one that is instant, or for good.
func (f Fault) Lasts() time.Duration {
	if f.Kind.row().takes&lastsMs != 0 {
		return time.Duration(f.Ms) * time.Millisecond
	}
	return f.For
}

// Plan is a storm's faults in order of At.
type Plan struct {
	Version int    // of the format
	Seed    uint64 // the plan was drawn from it; 0: written by hand
	Faults  []Fault
}
