// Package fault holds the faults of a storm as data. A plan lists for any engine which fault hits when, so that a run can be
// repeated, judged and shrunk.
package fault

import "time"

// Values of Fault.Deny: what RedisNoPerm takes away.
const (
	DenyFences = "fences" // the keys of the fences: Redis refuses every script that grants, extends or ends a lease before it runs
	DenyLeases = "leases" // the keys of the leases: also scripts that read owners
	DenySet    = "set"    // the command SET: Redis refuses it inside a script, whose earlier effects stay
)

// denials has the values of Fault.Deny in the order of draws.
var denials = []string{DenyFences, DenyLeases, DenySet}

// Fault is one injection.
type Fault struct {
	At     time.Duration `yaml:"at"` // after the start of the storm
	Kind   Kind          `yaml:"kind"`
	Target string        `yaml:"target,omitempty"`   // "node-3", Owner and its variants, "redis", "session-7", or ""
	For    time.Duration `yaml:"for,omitempty"`      // until it is healed; 0: instant, or never healed
	Ms     int64         `yaml:"ms,omitempty"`       // the kind's own amount in milliseconds, parts per million, or sessions
	Jitter int64         `yaml:"jitterMs,omitempty"` // variation of Ms, clock error, or a direction (Kind.Unit)
	KBps   int64         `yaml:"kbps,omitempty"`     // Bandwidth only
	Deny   string        `yaml:"deny,omitempty"`     // RedisNoPerm only: DenyFences, DenyLeases or DenySet
	Lone   bool          `yaml:"-"`                  // drawn so that no other fault overlaps its effects
}

// lengthMax bounds all durations of a fault. No run is longer than a day, and much longer times overflow an int64 of nanoseconds.
const lengthMax = 24 * time.Hour

// AmountsAt returns f after it divides all amounts that are times by speed. A positive amount stays at least a millisecond.
func (f Fault) AmountsAt(speed float64) Fault {
	div := func(ms int64) int64 {
		if ms > lengthMax.Milliseconds() {
			return ms // validation then refuses the original amount
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

// Lasts returns how long the fault's effect lasts unless something ends it, 0 if it is instant or permanent.
func (f Fault) Lasts() time.Duration {
	if f.Kind.row().takes&lastsMs != 0 {
		return time.Duration(f.Ms) * time.Millisecond
	}
	return f.For
}

// Plan is a storm's faults in order of At.
type Plan struct {
	Version int
	Seed    uint64 // seed of the draw; 0: written by hand
	Faults  []Fault
}
