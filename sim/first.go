package sim

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// drawn returns the scenario's own faults followed by faults drawn for the rest of the storm, after the own ones have healed.
func (c Config) drawn(p fault.DrawParams) (fault.Plan, error) {
	if c.First == nil {
		return fault.Draw(c.Seed, p), nil
	}
	lead := time.Duration(0)
	for _, f := range c.First.Faults {
		lead = max(lead, f.At+f.For)
	}
	plan := fault.Plan{Version: fault.Version, Seed: c.Seed, Faults: append([]fault.Fault{}, c.First.Faults...)}
	if p.Storm -= lead; p.Storm > 0 {
		for _, f := range fault.Draw(c.Seed, p).Faults {
			f.At += lead
			plan.Faults = append(plan.Faults, f)
		}
	}
	err := plan.Validate(c.limits())
	if err != nil {
		return fault.Plan{}, wrong("plan", "with what is drawn after it: %w", err)
	}
	return plan, nil
}
