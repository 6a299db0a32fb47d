package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// Judging a run's events in memory or from its file gives the same verdicts, word for word, even if guarantees are broken.
func TestJudgingMemoryAndFileIsTheSame(t *testing.T) {
	lossy := func(v *virtual.Config) { v.Net.Lost = 200_000 } // no fault of the plan excuses it
	broken := map[string]bool{}
	for name, bend := range map[string]Breaker{"sound": nil, "constant fences": virtualtest.ConstantFence, "lossy network": lossy} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 4; seed++ {
				c, plan, err := Scenario{
					Nodes: 4, Sessions: 12, Fixed: Fixed{Duration: time.Minute},
					Timings: Timings{TTL: 3 * time.Second, Discovery: time.Second, Poll: time.Second},
				}.Swarm(seed)
				if err != nil {
					t.Fatal(err)
				}
				c.Plan = &plan
				memory, out, _, err := JudgeVirtual(t.Context(), c, plan, bend)
				if err != nil {
					t.Fatal(err)
				}
				saved, err := Run(t.Context(), c, Options{Engine: NewVirtual(bend), Reports: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(memory, saved.Report.Guarantees, cmpopts.IgnoreFields(check.Verdict{}, "Evidence")); diff != "" || out.SHA256 != saved.Outcome.SHA256 {
					t.Errorf("seed %d: in memory (-) %s, saved (+) %s: %s", seed, out.SHA256, saved.Outcome.SHA256, diff)
				}
				for _, v := range memory {
					broken[name] = broken[name] || v.Verdict == check.Fail
				}
			}
		})
	}
	if !broken["constant fences"] || !broken["lossy network"] || broken["sound"] {
		t.Errorf("what broke a guarantee: %v; want all but the sound runs", broken)
	}
}
