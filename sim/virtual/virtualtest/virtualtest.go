// Package virtualtest has drawn storms for tests, and cores that break a guarantee.
package virtualtest

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// ConstantFence gives a run's instances a core whose fences never rise: G3 is broken at the first change of owner.
func ConstantFence(v *virtual.Config) {
	v.New = func(c core.Config) virtual.Machine { return constant{core.New(c)} }
}

type constant struct{ *core.Core }

func (c constant) Step(ev core.Event) core.Effects {
	eff := c.Core.Step(ev)
	for i := range eff.Tells {
		eff.Tells[i].Fence = min(eff.Tells[i].Fence, 7)
	}
	return eff
}

// DeafToFailure gives a run's instances a core whose shell does not hear that a renewal failed: it goes on polling, which breaks G4.
func DeafToFailure(v *virtual.Config) {
	v.New = func(c core.Config) virtual.Machine { return deaf{core.New(c)} }
}

type deaf struct{ *core.Core }

func (d deaf) Step(ev core.Event) core.Effects {
	eff := d.Core.Step(ev)
	eff.Tells = slices.DeleteFunc(eff.Tells, func(t core.Tell) bool { return t.Kind == core.TellUncertain })
	for i := range eff.Ops { // nor does belief end when the attempt should have been answered
		if eff.Ops[i].Kind.Extends() {
			eff.Ops[i].Deadline += core.Time(time.Hour)
		}
	}
	return eff
}
