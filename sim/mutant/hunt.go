package mutant

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/explore"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Order is what a hunter is asked to do: the program that is built once for each mutant, with the mutant in it.
type Order struct {
	Scenario sim.Scenario
	Seeds    uint64
	Lua      bool   // the scripts run in an interpreter
	Shrink   string // the guarantee that the smallest run must still break; "": do not shrink
	Reports  string // folder for what is saved on the way
}

// Catch is what a hunter found.
type Catch struct {
	Seed    uint64   `json:"seed,omitempty"`    // the first that breaks anything, 0: none does
	Broke   []string `json:"broke,omitempty"`   // what it breaks
	Detail  string   `json:"detail,omitempty"`  // of the first
	Plan    string   `json:"plan,omitempty"`    // the smallest run, in a line
	Faults  int      `json:"faults,omitempty"`  // in it
	Drawn   int      `json:"drawn,omitempty"`   // faults in the seed as drawn
	Problem string   `json:"problem,omitempty"` // why it could not be shrunk

	// Confirmed is what the real engine made of the smallest run; "" if it was not asked.
	Confirmed string `json:"confirmed,omitempty"`
}

// Hunt runs seeds until one breaks a guarantee.
func Hunt(ctx context.Context, o Order) (Catch, error) {
	var bend sim.Breaker
	if o.Lua {
		bend = sim.Interpreted(nil)
	}
	cov, err := explore.Run(ctx, explore.Exploration{
		Scenario: o.Scenario, Seeds: explore.SeedRange{From: 1, To: o.Seeds}, Shard: explore.Shard{Index: 1, Of: 1}, Parallel: 1,
		Reports: o.Reports, Bend: bend,
	})
	if err != nil || len(cov.Failed) == 0 {
		return Catch{}, err
	}
	first := cov.Failed[0]
	c := Catch{Seed: first.Seed, Broke: first.Broke, Detail: first.Detail}
	if o.Shrink == "" {
		return c, nil
	}
	cfg, plan, err := o.Scenario.Swarm(first.Seed)
	if err != nil {
		return c, err
	}
	cfg.Plan = &plan
	s, err := sim.Shrink(ctx, cfg, o.Shrink, bend, nil)
	switch {
	case errors.Is(err, sim.ErrNothingBroke):
		c.Problem = err.Error()
		return c, nil
	case err != nil:
		return c, err
	}
	c.Plan, c.Faults, c.Drawn = Line(s.Config), len(s.Plan.Faults), len(plan.Faults)
	return c, nil
}

// Line is a run in a line: its size and its faults.
func Line(c sim.Config) string {
	text := size(c.Nodes, c.Sessions, c.Duration()) + ": " + plan(c.Plan.Faults)
	if c.Virtual != (sim.Virtual{}) {
		text += "; network or clocks as drawn"
	}
	return text
}

func size(nodes, sessions int, d time.Duration) string {
	count := func(n int, what string) string {
		if n != 1 {
			what += "s"
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%s, %s, %v", count(nodes, "node"), count(sessions, "session"), d.Round(100*time.Millisecond))
}

func plan(faults []fault.Fault) string {
	var parts []string
	for _, f := range faults {
		parts = append(parts, faultLine(f))
	}
	if len(parts) == 0 {
		return "no fault"
	}
	return strings.Join(parts, "; ")
}

func faultLine(f fault.Fault) string {
	text := string(f.Kind)
	if f.Target != "" && f.Target != fault.Redis {
		text += " " + f.Target
	}
	if f.Deny != "" {
		text += " of " + f.Deny
	}
	text += " at " + f.At.String()
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	if f.Ms > 0 {
		text += fmt.Sprintf(" by %d ms", f.Ms)
	}
	return text
}
