package sim

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/report"
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

// Draw returns the given plan, or draws one from the seed with the supported kinds. It omits unsupported kinds, but returns an error for
// a named one.
func (c Config) Draw(supported func(fault.Kind) error) (fault.Plan, error) {
	if c.Plan != nil {
		for i, f := range c.Plan.Faults {
			if err := supported(f.Kind); err != nil {
				return fault.Plan{}, wrong(fmt.Sprintf("plan[%d]", i), "%w", err)
			}
		}
		return *c.Plan, nil
	}
	var usual []fault.Kind
	for _, k := range append(fault.DefaultKinds(), fault.ServerKinds()...) {
		if supported(k) == nil && c.pointless(k) == nil {
			usual = append(usual, k)
		}
	}
	kinds := fault.Wanted(c.Faults, usual)
	for _, k := range kinds {
		if err := supported(k); err != nil {
			return fault.Plan{}, wrong("faults", "%w", err)
		}
	}
	plan, err := c.drawn(fault.DrawParams{
		Nodes: c.Nodes, Sessions: c.Sessions, Timings: c.Timings, Storm: c.Storm, Leader: c.System == SystemElection, Owns: c.owns(),
		Kinds: kinds, Virtual: c.onVirtual(),
		Mixed: c.replicated(), // lone faults test time limits, which faults of servers lack
	})
	if n := len(plan.Faults); err == nil && n > report.FaultsMax {
		return fault.Plan{}, wrong("duration", "a storm of %d faults could not be read again, at most %d: a shorter one (--duration), one "+
			"with a longer TTL (--ttl), or fewer nodes (--nodes)", n, report.FaultsMax)
	}
	return plan, err
}
