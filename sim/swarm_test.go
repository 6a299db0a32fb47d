package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// What tells one exploration from another names which slots have APIs that take leases.
func TestGivenNamesAPILeases(t *testing.T) {
	text, err := Scenario{System: SystemIntents, APILeases: APILeasesOn}.Given()
	if err != nil || !strings.Contains(string(text), `"apiLeases":"on"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// What is drawn does not depend on what is given beside it, and every drawn plan can be saved and loaded.
func TestSwarmIsValid(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		c, plan, err := Scenario{}.Swarm(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		l := fault.Limits{Nodes: c.Nodes, Sessions: c.Sessions, Storm: c.Storm, Virtual: true}
		if err := plan.Validate(l); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		fixed, _, err := Scenario{Nodes: 5}.Swarm(seed)
		if err != nil || fixed.Nodes != 5 || fixed.Sessions != c.Sessions || fixed.TTL != c.TTL || fixed.Virtual != c.Virtual {
			t.Fatalf("seed %d with 5 nodes: %+v, without %+v, %v", seed, fixed, c, err)
		}
	}
}

// drawnSum is the sum of what seeds draw in DrawVersion. A change of it is a new version: old seeds are other runs then.
const drawnSum = "4-4d8bc0a1eccf7f77"

var timings = regexp.MustCompile(`Timings:\{([^}]*)\}`)

func TestDrawVersion(t *testing.T) {
	h := sha256.New()
	write := func(c Config, p fault.Plan) {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		c.Plan = nil
		said := fmt.Sprintf("%+v", c)
		for _, usual := range []string{" First:<nil>", " Topology:single Replicas:0"} {
			said = strings.Replace(said, usual, "", 1) // a key that is not given makes no other run
		}
		said = timings.ReplaceAllString(said, "$1") // nor does where the timings stand
		fmt.Fprintf(h, "%s %s\n", said, text)
	}
	for seed := uint64(1); seed <= 200; seed++ {
		c, plan, err := Scenario{}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		write(c, plan)
	}
	for _, engine := range []string{EngineReal, EngineVirtual} {
		c := resolved(t, Scenario{Seed: 42, Engine: engine})
		plan, err := c.Draw(func(k fault.Kind) error { return k.AvailableOn(engine == EngineVirtual) })
		if err != nil {
			t.Fatal(err)
		}
		write(c, plan)
	}
	if sum := fmt.Sprintf("%d-%x", DrawVersion, h.Sum(nil)[:8]); sum != drawnSum {
		t.Errorf("seeds draw %s, known is %q: raise DrawVersion, and set drawnSum", sum, drawnSum)
	}
}
