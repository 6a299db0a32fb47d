package sim

import (
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
)

// Drawn storms of intents in virtual time break nothing, leave nothing running, and give the same history twice.
func TestIntentsInVirtualTime(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		c, plan, err := Scenario{System: SystemIntents}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		c.Plan = &plan
		verdicts, first, _, err := JudgeVirtual(t.Context(), c, plan, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Verdict == check.Fail {
				t.Errorf("seed %d: %s: %s", seed, v.ID, v.Detail)
			}
		}
		_, second, _, err := JudgeVirtual(t.Context(), c, plan, Interpreted(nil))
		if err != nil {
			t.Fatal(err)
		}
		if first.SHA256 != second.SHA256 {
			t.Errorf("seed %d: %s with the leases' scripts in Go, %s in an interpreter", seed, first.SHA256, second.SHA256)
		}
	}
}
