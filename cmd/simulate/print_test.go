package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/explore"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
)

// An amount is printed in its unit (docs/scenarios.md). A second amount that is a direction is printed as a direction.
func TestAmountsHaveTheirUnits(t *testing.T) {
	for want, f := range map[string]fault.Fault{
		"for 1s 1136 ppm slow": {Kind: fault.ClockDrift, For: time.Second, Ms: 1136, Jitter: 1},
		"for 1s 7 ppm fast":    {Kind: fault.ClockDrift, For: time.Second, Ms: 7},
		"1136ms back":          {Kind: fault.ClockStep, Ms: 1136, Jitter: 1},
		"1136ms forward":       {Kind: fault.ClockStep, Ms: 1136},
		"3 sessions":           {Kind: fault.SessionAdd, Ms: 3},
		"40ms ± 20ms":          {Kind: fault.Latency, Ms: 40, Jitter: 20},
		"for 1s":               {Kind: fault.Freeze, For: time.Second},
	} {
		if got := amount(f); got != want {
			t.Errorf("%s %+v is %q, want %q", f.Kind, f, got, want)
		}
	}
}

// The progress line has a name beside each number. It reports no violations, because only the judge finds them. More nodes may live than
// the fleet had at first.
func TestProgressNamesWhatItCounts(t *testing.T) {
	got := sentence(sim.Progress{
		Progress: real.Progress{Phase: "storm", Alive: 4, Nodes: 3, Polls: 7, Rejected: 2, Violations: 1}, Challenges: 5,
	})
	if strings.Contains(got, "violations") || strings.Contains(got, "of 3") || !strings.Contains(got, "1 overlapping") ||
		!strings.Contains(got, "4 nodes alive") {
		t.Errorf("progress says %q", got)
	}
}

// A replay names the instance that a fault of an owner hit. If the plan aims at another owner, it does not.
func TestFaultOfAnOwnerIsThatOfItsReplay(t *testing.T) {
	at := func(target string) fault.Fault {
		return fault.Fault{At: time.Second, Kind: fault.Crash, Target: target}
	}
	for _, c := range []struct {
		a, z string
		same bool
	}{
		{"owner", "owner:node-7", true}, {"owner:session-1", "owner:node-7", true}, {"owner:node-7", "owner", true},
		{"owner:node-7", "owner:node-8", false}, {"owner", "owner:session-1", false}, {"node-7", "owner", false},
	} {
		if got := planOf([]fault.Fault{at(c.a)}).has(at(c.z)); got != c.same {
			t.Errorf("%s and %s: the same %v, want %v", c.a, c.z, got, c.same)
		}
	}
}

// If an exploration cannot save a failed seed, it still prints what broke, and its exit code says so.
func TestExplorationTellsWhatItCannotSave(t *testing.T) {
	full := fmt.Errorf("%w: save the state: no space left on device", sim.ErrHarness)
	broke := explore.Coverage{Verdict: check.Fail, Failed: []explore.FailedSeed{{Seed: 17, Broke: []string{"G3"}}}}
	var stdout, stderr strings.Builder
	err := new(explorer).covered(broke, full, "", &stdout, &stderr)
	var code verdictError
	if !errors.As(err, &code) || code != exitFail {
		t.Errorf("%v, want exit code %d", err, exitFail)
	}
	if !strings.Contains(stdout.String(), "seed 17 breaks G3") || !strings.Contains(stderr.String(), "no space left on device") {
		t.Errorf("it says %q and %q", stdout.String(), stderr.String())
	}
	if err := new(explorer).covered(explore.Coverage{Verdict: check.Unknown}, full, "", &stdout, &stderr); !errors.Is(err, sim.ErrHarness) {
		t.Errorf("nothing broke, and nothing was saved: %v", err)
	}
}
