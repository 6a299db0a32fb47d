// Package virtualtest has what several packages' tests break virtual instances with.
package virtualtest

import (
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
