package policy

import "github.com/leasestorm/leasestorm/internal/core"

// Belief is the end of the time in which a term is believed. The earlier of both clocks counts, because on most systems the monotonic
// clock stops while the machine is suspended, and the wall clock may be stepped (G1). The zero value is no belief.
type Belief struct {
	Mono core.Time
	Wall int64
}

// Holds reports whether the term is believed now.
func (b Belief) Holds(now core.Now) bool { return now.Mono < b.Mono && now.Wall < b.Wall }

// After returns the belief after the core has sent t about the term.
func (b Belief) After(t *core.Tell) Belief {
	switch t.Kind {
	case core.TellAcquired, core.TellRenewed:
		return Belief{Mono: t.Until, Wall: t.UntilWall}
	case core.TellUncertain, core.TellLost, core.TellReleased:
		return Belief{}
	}
	return b
}

// During returns the belief while op, an attempt to renew the term, has no answer. The belief ends at op's deadline at the latest,
// even if no code runs at that moment (G4). An attempt never extends the belief.
func (b Belief) During(op *core.Op) Belief {
	early := b.Mono - op.Deadline
	if early <= 0 {
		return b
	}
	return Belief{Mono: b.Mono - early, Wall: b.Wall - int64(early)}
}

// Renews reports whether a request of that kind is an attempt to renew terms.
func Renews(k core.OpKind) bool { return k == core.OpRenew || k == core.OpReassert }
