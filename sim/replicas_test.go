package sim

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/report"
)

// behind is a scenario behind Sentinel whose instances are configured with this many replicas.
func behind(system string, replicas int) Scenario {
	return Scenario{Engine: EngineVirtual, System: system, Topology: TopologySentinel, Replicas: &replicas}
}

// onCluster is behind for a cluster.
func onCluster(system string, replicas int) Scenario {
	s := behind(system, replicas)
	s.Topology = TopologyCluster
	return s
}

// Drawn storms on a cluster break nothing and exercise all guarantees.
func TestClusterSeeds(t *testing.T) {
	for _, system := range []string{SystemPolling, SystemElection} {
		exercised := map[string]int{}
		for seed := uint64(1); seed <= 60; seed++ {
			c, plan, err := onCluster(system, 2).Swarm(seed)
			if err != nil {
				t.Fatal(err)
			}
			verdicts, out, _, err := JudgeVirtual(context.Background(), c, plan, nil)
			if err != nil || out.Fell != "" {
				t.Fatalf("%s, seed %d: %v, fell %q", system, seed, err, out.Fell)
			}
			for _, v := range verdicts {
				if exercised[v.ID] += v.Exercised; v.Verdict == check.Fail {
					t.Errorf("%s, seed %d: %s: %s", system, seed, v.ID, v.Detail)
				}
			}
		}
		for _, id := range check.IDs(system) {
			if exercised[id] == 0 {
				t.Errorf("%s: %s was never exercised", system, id)
			}
		}
	}
}

// Drawn storms with replicas break nothing and exercise all guarantees. In the same storms, instances configured without replicas have two
// owners, or two pipelines in one slot.
func TestReplicaSeeds(t *testing.T) {
	for system, seeds := range map[string]uint64{SystemPolling: 30, SystemElection: 30, SystemIntents: 15} {
		for _, replicas := range []int{2, 0} {
			broke, exercised := 0, map[string]int{}
			for seed := uint64(1); seed <= seeds; seed++ {
				c, plan, err := behind(system, replicas).Swarm(seed)
				if err != nil {
					t.Fatal(err)
				}
				verdicts, out, _, err := JudgeVirtual(context.Background(), c, plan, nil)
				if err != nil || out.Fell != "" {
					t.Fatalf("%s, seed %d: %v, fell %q", system, seed, err, out.Fell)
				}
				failed := false
				for _, v := range verdicts {
					exercised[v.ID] += v.Exercised
					failed = failed || v.Verdict == check.Fail
					if v.Verdict == check.Fail && replicas > 0 {
						t.Errorf("%s, seed %d: %s: %s", system, seed, v.ID, v.Detail)
					}
				}
				if failed {
					broke++
				}
			}
			if replicas == 0 && broke == 0 {
				t.Errorf("%s: no storm gives a lease two owners where instances are told of no replicas", system)
			}
			for _, id := range check.IDs(system) {
				if exercised[id] == 0 {
					t.Errorf("%s: %s was never exercised", system, id)
				}
			}
		}
	}
}

// With and without replicas, a seed draws the same run except for the faults.
func TestReplicasDrawTheRestAlike(t *testing.T) {
	of, ofCluster := map[fault.Kind]int{}, map[fault.Kind]int{}
	for seed := range uint64(50) {
		single, _, err := Scenario{}.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		several, plan, err := behind("", 2).Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		if single.Nodes != several.Nodes || single.Sessions != several.Sessions || single.Timings != several.Timings ||
			single.Virtual != several.Virtual || single.Storm != several.Storm {
			t.Errorf("seed %d: one server draws %+v, several %+v", seed, single, several)
		}
		limits := fault.Limits{Nodes: several.Nodes, Sessions: several.Sessions, Storm: several.Storm, Virtual: true}
		if err := plan.Validate(limits); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, f := range plan.Faults {
			of[f.Kind]++
		}
		if slices.ContainsFunc(several.Faults, fault.Kind.OfCluster) {
			t.Errorf("seed %d: sentinels have %v", seed, several.Faults)
		}
		_, plan2, err := onCluster("", 2).Swarm(seed)
		if err != nil || plan2.Validate(limits) != nil {
			t.Errorf("seed %d: %v, %v", seed, err, plan2.Validate(limits))
		}
		for _, f := range plan2.Faults {
			ofCluster[f.Kind]++
		}
		if slices.ContainsFunc(single.Faults, fault.Kind.OfServers) {
			t.Errorf("seed %d: one server has %v", seed, single.Faults)
		}
	}
	for _, k := range append(fault.ServerKinds(), fault.KeyDelete) {
		if of[k] == 0 && !k.OfCluster() || ofCluster[k] == 0 {
			t.Errorf("seeds drew %s behind Sentinel %d times, on a cluster %d", k, of[k], ofCluster[k])
		}
	}
	if of[fault.RedisFailover]+ofCluster[fault.RedisFailover] > 0 {
		t.Errorf("drawn with replicas: %v, %v", of, ofCluster)
	}
}

// A run whose plan is not a seed's own also has faults of servers.
func TestReplicasAreStormed(t *testing.T) {
	c, err := Scenario{Engine: EngineVirtual, Topology: TopologySentinel, Seed: 5}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.Draw(func(k fault.Kind) error { return k.AvailableOn(true) })
	if err != nil || !slices.ContainsFunc(plan.Faults, func(f fault.Fault) bool { return f.Kind.OfServers() }) {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestTopologyIsChecked(t *testing.T) {
	ten, one, minus := 10, 1, -1
	for _, c := range []struct {
		name string
		s    Scenario
		key  string
		want string
	}{
		{"unknown", Scenario{Topology: "ring"}, "topology", "choose from single, sentinel, cluster"},
		{"of one server", Scenario{Replicas: &one}, "replicas", "add topology: sentinel"},
		{"too many", Scenario{Engine: EngineVirtual, Topology: TopologySentinel, Replicas: &ten}, "replicas", "0 to 9"},
		{"negative", Scenario{Engine: EngineVirtual, Topology: TopologySentinel, Replicas: &minus}, "replicas", "0 to 9"},
		{"an election on a real cluster", Scenario{Topology: TopologyCluster, System: SystemElection}, "topology", "add --engine virtual"},
		{"intents on a cluster", onCluster(SystemIntents, 2), "topology", "choose another system"},
		{"a fault of a cluster", Scenario{
			Engine: EngineVirtual, Topology: TopologySentinel, Faults: []fault.Kind{fault.SlotMoved},
		}, "faults[0]", "add topology: cluster"},
		{"no server of a real cluster is told to follow another", Scenario{
			Topology: TopologyCluster, Faults: []fault.Kind{fault.RedisReadOnly},
		}, "faults[0]", "leave it out"},
		{"intents behind a real Sentinel", Scenario{System: SystemIntents, Topology: TopologySentinel}, "topology", "add --engine virtual"},
		{"a fault of replicas", Scenario{Engine: EngineVirtual, Faults: []fault.Kind{fault.MasterCut}}, "faults[0]", "add topology: sentinel"},
		{"a fault of one server", Scenario{
			Engine: EngineVirtual, Topology: TopologySentinel, Faults: []fault.Kind{fault.RedisFailover},
		}, "faults[0]", `name "failover"`},
		{"in a plan", Scenario{Engine: EngineVirtual, Plan: []fault.Fault{{Kind: fault.Failover}}}, "plan[0]", "add topology: sentinel"},
		{"a target", Scenario{
			Engine: EngineVirtual, Topology: TopologySentinel, Plan: []fault.Fault{{Kind: fault.Failover, Target: "redis"}},
		}, "plan[0]", "takes no target"},
	} {
		_, err := c.s.Resolve()
		var k *KeyError
		if !errors.As(err, &k) || k.Key != c.key || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s and %q", c.name, err, c.key, c.want)
		}
	}
	if c, err := (Scenario{Topology: TopologyCluster}).Resolve(); err != nil || c.Servers() != DefaultReplicas+1 {
		t.Errorf("a real cluster: %d servers in a shard, %v", c.Servers(), err)
	}
	if c, err := behind(SystemIntents, 2).Resolve(); err != nil || c.Replicas != 2 {
		t.Errorf("intents behind Sentinel: %d replicas, %v", c.Replicas, err)
	}
	deletion := Scenario{Engine: EngineVirtual, Topology: TopologySentinel, Plan: []fault.Fault{{Kind: fault.KeyDelete, Target: "session-1"}}}
	if _, err := deletion.Resolve(); err != nil {
		t.Errorf("a key that a foreign hand deletes: %v", err)
	}
	if c, err := (Scenario{Engine: EngineVirtual, Topology: TopologySentinel}).Resolve(); err != nil || c.Replicas != DefaultReplicas {
		t.Errorf("%d replicas, %v", c.Replicas, err)
	}
}

// A saved run is played again unchanged, and another engine has as many servers.
func TestReplicasAreSaved(t *testing.T) {
	for _, replicas := range []int{0, 2} {
		c, plan, err := behind("", replicas).Swarm(3)
		if err != nil {
			t.Fatal(err)
		}
		c.Plan = &plan
		r, err := Run(context.Background(), c, Options{Engine: NewVirtual(nil), Reports: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		again, err := LoadRun(r.Dir)
		if err != nil || again.Topology != TopologySentinel || again.Replicas != replicas {
			t.Fatalf("%+v, %v", again, err)
		}
		out, err := PlayVirtual(context.Background(), again, *again.Plan, nil)
		if err != nil || out.SHA256 != r.Outcome.SHA256 {
			t.Errorf("%d replicas: played again it is %s, was %s, %v", replicas, out.SHA256, r.Outcome.SHA256, err)
		}
		if p := r.Report.Config; p.Topology != TopologySentinel || p.Replicas != replicas {
			t.Errorf("the report says %+v", p)
		}
		if c, err := again.On(EngineReal); err != nil || c.Replicas != replicas || c.Servers() != 3 {
			t.Errorf("on the real engine: %d servers, told %d, %v", c.Servers(), c.Replicas, err)
		}
		s, err := Load(filepath.Join(r.Dir, report.ScenarioName))
		if err != nil || s.Replicas == nil || *s.Replicas != replicas {
			t.Errorf("the scenario's file: %+v, %v", s, err)
		}
	}
}
