package explore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// falling is a core that misbehaves when its process is asked to stop.
type falling struct {
	virtual.Machine
	do func(core.Effects) core.Effects
	on bool
}

func (f *falling) Step(ev core.Event) core.Effects {
	eff := f.Machine.Step(ev)
	if f.on = f.on || ev.Kind == core.EvDrain; f.on {
		return f.do(eff)
	}
	return eff
}

// An instance that ends itself fails an exploration, which names the cause. A run that breaks nothing else is incomplete: it does not pass,
// and says why.
func TestInstancesThatTakeThemselvesDown(t *testing.T) {
	for what, do := range map[string]func(core.Effects) core.Effects{
		brokePanic: func(core.Effects) core.Effects { panic("out of order") },
		brokeHang: func(eff core.Effects) core.Effects {
			eff.Tells = append(eff.Tells, core.Tell{Kind: core.TellYield, ID: "of nobody", Cause: core.CauseDrain})
			return eff
		},
	} {
		t.Run(what, func(t *testing.T) {
			bend := func(v *virtual.Config) {
				v.New = func(c core.Config) virtual.Machine { return &falling{Machine: core.New(c), do: do} }
			}
			x := Exploration{
				Scenario: sim.Scenario{Nodes: 3, Sessions: 6, Fixed: sim.Fixed{Duration: time.Minute}}, Seeds: SeedRange{1, 20},
				Shard: Shard{1, 1}, Parallel: 1, KeepGoing: true, Reports: t.TempDir(), Bend: bend,
			}
			c, err := Run(t.Context(), x)
			if err != nil || c.Done != 20 || len(c.Failed) == 0 {
				t.Fatalf("%d of %d seeds, %d failed: %v", c.Done, c.Total, len(c.Failed), err)
			}
			for _, f := range c.Failed {
				if !slices.Contains(f.Broke, what) || f.Dir == "" {
					t.Errorf("seed %d breaks %v, saved in %q: %s", f.Seed, f.Broke, f.Dir, f.Detail)
				}
			}
			cfg, plan, err := x.Scenario.Swarm(c.Failed[0].Seed)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Plan, cfg.Criteria = &plan, []string{"G1"}
			r, err := sim.Run(t.Context(), cfg, sim.Options{Engine: sim.NewVirtual(bend), Reports: t.TempDir()})
			if err != nil || r.Report.Verdict != check.Unknown || !strings.Contains(strings.Join(r.Outcome.Notes, "\n"), "took down node-") {
				t.Errorf("a run: %s, notes %q, %v", r.Report.Verdict, r.Outcome.Notes, err)
			}
			if v := r.Report.Guarantees[0]; !strings.Contains(v.Detail, "node-") || !strings.Contains(v.Detail, what) {
				t.Errorf("G1: %s", v.Detail)
			}
		})
	}
}
