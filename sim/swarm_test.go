package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"regexp"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// The settings that distinguish explorations name the slots whose APIs acquire leases.
func TestGivenNamesAPILeases(t *testing.T) {
	text, err := Scenario{System: SystemIntents, APILeases: APILeasesOn}.Given()
	if err != nil || !strings.Contains(string(text), `"apiLeases":"on"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A given setting does not change the rest of the draw, and every drawn plan can be saved and loaded.
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

// drawnSum is the checksum of the seeds' draws in DrawVersion, drawnSumReplicas with replicas. If one changes, old seeds are other runs, so
// DrawVersion must change.
const (
	drawnSum         = "5-4d8bc0a1eccf7f77"
	drawnSumReplicas = "5-4937be646744c3eb"
)

var timings = regexp.MustCompile(`Timings:\{([^}]*)\}`)

// draws hashes the draws of seeds.
type draws struct{ hash.Hash }

func (d draws) add(t *testing.T, c Config, p fault.Plan) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c.Plan = nil
	said := fmt.Sprintf("%+v", c)
	for _, usual := range []string{" First:<nil>", " Topology:single Replicas:0", "Local:false Emptied: "} {
		said = strings.Replace(said, usual, "", 1) // an omitted key does not change the run
	}
	said = timings.ReplaceAllString(said, "$1") // nor does the place of the timings
	fmt.Fprintf(d, "%s %s\n", said, text)
}

// seeds adds the draws of the first seeds.
func (d draws) seeds(t *testing.T, s Scenario) {
	t.Helper()
	for seed := uint64(1); seed <= 200; seed++ {
		c, plan, err := s.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		d.add(t, c, plan)
	}
}

// storm adds a run whose plan is drawn for it alone.
func (d draws) storm(t *testing.T, s Scenario) {
	t.Helper()
	c := resolved(t, s)
	plan, err := c.Draw(func(k fault.Kind) error { return k.AvailableOn(s.Engine == EngineVirtual) })
	if err != nil {
		t.Fatal(err)
	}
	d.add(t, c, plan)
}

func (d draws) is(t *testing.T, known string) {
	t.Helper()
	if sum := fmt.Sprintf("%d-%x", DrawVersion, d.Sum(nil)[:8]); sum != known {
		t.Errorf("seeds draw %s, known is %q: raise DrawVersion, and set the sum", sum, known)
	}
}

func TestDrawVersion(t *testing.T) {
	single := draws{sha256.New()}
	single.seeds(t, Scenario{})
	for _, engine := range []string{EngineReal, EngineVirtual} {
		single.storm(t, Scenario{Seed: 42, Engine: engine})
	}
	single.is(t, drawnSum)

	several := draws{sha256.New()}
	for _, topology := range []string{TopologySentinel, TopologyCluster} {
		for _, system := range []string{SystemPolling, SystemElection} {
			several.seeds(t, Scenario{Topology: topology, System: system})
		}
		for _, engine := range []string{EngineReal, EngineVirtual} {
			several.storm(t, Scenario{Seed: 42, Engine: engine, Topology: topology})
		}
	}
	several.is(t, drawnSumReplicas)
}
