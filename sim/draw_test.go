package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// The plan of a scenario hits first, unchanged. Drawn faults follow when it is healed.
func TestPlanBeforeWhatIsDrawn(t *testing.T) {
	s := Scenario{
		Seed: 1, Speed: 10, Duration: 10 * time.Minute, Faults: []fault.Kind{fault.Crash, fault.Cut},
		Plan: []fault.Fault{
			{At: 40 * time.Second, Kind: fault.Latency, Target: "node-1", For: time.Minute, Ms: 4000},
			{At: 41 * time.Second, Kind: fault.Terminate, Target: "node-1", For: 20 * time.Second},
		},
	}
	c, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.Draw(func(fault.Kind) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Faults) < 3 || plan.Faults[0].Kind != fault.Latency || plan.Faults[1].Kind != fault.Terminate {
		t.Fatalf("drew %v", plan.Faults)
	}
	for _, f := range plan.Faults[2:] {
		if f.At < 10*time.Second || f.Kind != fault.Crash && f.Kind != fault.Cut {
			t.Errorf("drew %v at %v", f.Kind, f.At)
		}
	}
}

// A minus removes a kind from the usual ones, in a storm and in a seed's draws. A kind that no engine has is refused.
func TestKindsTakenOut(t *testing.T) {
	s := Scenario{Seed: 1, Duration: 30 * time.Minute, Faults: []fault.Kind{"-redis-wipe", "-crash"}}
	c, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.Draw(func(k fault.Kind) error { // only named kinds must exist
		if k == fault.RedisOutage {
			return errors.New("not here")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[fault.Kind]bool{}
	for _, f := range plan.Faults {
		kinds[f.Kind] = true
	}
	if kinds[fault.RedisWipe] || kinds[fault.Crash] || kinds[fault.RedisOutage] || len(kinds) < 10 {
		t.Errorf("drew %v", kinds)
	}
	_, plan, err = s.Swarm(3)
	if err != nil || len(plan.Faults) == 0 || slices.ContainsFunc(plan.Faults, func(f fault.Fault) bool {
		return f.Kind == fault.RedisWipe || f.Kind == fault.Crash
	}) {
		t.Errorf("a seed draws %v, %v", plan.Faults, err)
	}
	for _, wrong := range [][]fault.Kind{{"-crsh"}, {"crash", "-cut"}, {"-"}} {
		if _, err := (Scenario{Faults: wrong}).Resolve(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}
