package sim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/mutant/sovereign"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// seedTimings is an election at the timings of the specification, whose clocks are exact.
func seedTimings(kinds ...fault.Kind) Scenario {
	s := Scenario{
		Engine: EngineVirtual, System: SystemElection, Nodes: 4, Faults: kinds,
		Timings: Timings{TTL: 30 * time.Second, Discovery: 10 * time.Second, Poll: 5 * time.Second, Serve: 100 * time.Millisecond},
		Fixed:   Fixed{Duration: 5 * time.Minute},
	}
	s.Virtual.Net.Jitter = 400 * time.Microsecond
	return s
}

// E1, E2 and E5 catch the Sovereign document's algorithm, and each break shrinks to a readable plan. The plans of docs/election.md come
// from here: go test ./sim -run SovereignIsCaught -v prints them.
func TestSovereignIsCaught(t *testing.T) {
	for _, c := range []struct {
		breaks string
		faults []fault.Kind
		within uint64 // seeds
	}{
		{"E5", []fault.Kind{fault.BlackHole, fault.RequestsLost, fault.Latency}, 5},
		{"E1", []fault.Kind{fault.Cut, fault.Crash, fault.Terminate, fault.RepliesLost}, 5},
		{"E2", []fault.Kind{fault.RedisWipe, fault.RedisFlush, fault.Terminate}, 5},
	} {
		t.Run(c.breaks, func(t *testing.T) {
			s, err := firstBroken(t, c.breaks, seedTimings(c.faults...), c.within)
			if err != nil {
				t.Fatalf("%s was not broken by any of %d seeds: %v", c.breaks, c.within, err)
			}
			if s.To.Faults > 3 || s.To.Nodes > 4 {
				t.Errorf("%s shrunk from %v to %v only", c.breaks, s.From, s.To)
			}
			r, err := s.Save(t.Context(), t.TempDir(), sovereigns(nil))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(r.Dir, ShrunkFile))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", text)
		})
	}
}

func firstBroken(t *testing.T, breaks string, s Scenario, within uint64) (Shrunk, error) {
	t.Helper()
	var last error
	for seed := uint64(1); seed <= within; seed++ {
		c, plan, err := s.Swarm(seed)
		if err != nil {
			t.Fatal(err)
		}
		c.Plan = &plan
		shrunk, err := Shrink(t.Context(), c, breaks, sovereigns(nil), nil)
		if err == nil {
			return shrunk, nil
		}
		last = err
	}
	return Shrunk{}, last
}

// Every plan in docs/election.md breaks the named guarantee if members follow the document, and none if they are this library's.
func TestSovereignPlansOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/election.md")
	if err != nil {
		t.Fatal(err)
	}
	plans := 0
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		yaml, _, _ := strings.Cut(part, "```")
		id, ok := strings.CutPrefix(yaml, "# breaks ")
		if !ok {
			continue
		}
		plans++
		id, _, _ = strings.Cut(id, "\n")
		file := filepath.Join(t.TempDir(), strings.ToLower(id)+".yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		s.Engine, s.Speed = EngineVirtual, 1
		c, err := s.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []struct {
			name  string
			bend  Breaker
			fails bool
		}{{"the document's members", sovereigns(nil), true}, {"this library's", nil, false}} {
			verdicts, _, _, err := JudgeVirtual(t.Context(), c, *c.Plan, who.bend)
			if err != nil {
				t.Fatal(err)
			}
			broke := ""
			for _, v := range verdicts {
				if v.Verdict == check.Fail {
					broke += v.ID + " "
				}
			}
			if strings.Contains(broke, id) != who.fails || !who.fails && broke != "" {
				t.Errorf("%s: with %s it breaks %q", id, who.name, broke)
			}
		}
	}
	if plans != 4 {
		t.Errorf("%d plans found in docs/election.md, want 4", plans)
	}
}

// Each promise of an election can be broken, and the judge notices: by members that follow the document, or by rules broken on purpose.
func TestElectionMutants(t *testing.T) {
	for _, m := range []struct {
		breaks string
		bend   Breaker
		within uint64 // seeds
	}{
		{"E1", sovereigns(nil), 5},
		{"E2", sovereigns(nil), 5},
		{"E3", virtualtest.ConstantFence, 5},
		{"E4", sovereigns(nil), 10},
		{"E5", sovereigns(nil), 5},
		{"E6", sovereigns(nil), 20},
	} {
		caught := false
		for seed := uint64(1); seed <= m.within && !caught; seed++ {
			s := seedTimings(fault.Crash, fault.BlackHole, fault.RequestsLost, fault.Terminate, fault.RedisOutage)
			c, plan, err := s.Swarm(seed)
			if err != nil {
				t.Fatal(err)
			}
			verdicts, _, _, err := JudgeVirtual(t.Context(), c, plan, m.bend)
			if err != nil {
				t.Fatal(err)
			}
			caught = slices.ContainsFunc(verdicts, func(v check.Verdict) bool {
				return v.ID == m.breaks && v.Verdict == check.Fail
			})
		}
		if !caught {
			t.Errorf("%s was broken by none of %d seeds", m.breaks, m.within)
		}
	}
}

// One member follows the document among four of this library. As long as nothing breaks, there is one leader at a time.
func TestSovereignAmongOurs(t *testing.T) {
	s := seedTimings()
	s.Nodes, s.Plan, s.Faults = 5, []fault.Fault{}, nil
	for seed := uint64(1); seed <= 10; seed++ {
		s.Seed = seed
		c, err := s.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		bend := sovereigns(func(slot int) bool { return slot != 1 })
		verdicts, _, _, err := JudgeVirtual(t.Context(), c, *c.Plan, bend)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Verdict == check.Fail {
				t.Errorf("seed %d: %s: %s", seed, v.ID, v.Detail)
			}
		}
	}
}

// sovereigns makes every instance of a virtual election follow the Sovereign document exactly. The storm must catch this mutant. Slots for
// which ours returns true keep this library; nil: none.
func sovereigns(ours func(slot int) bool) Breaker {
	return func(v *virtual.Config) {
		ttl := v.TTL
		v.Foreign = func(i virtual.Instance) foreign.Machine {
			if ours != nil && ours(i.Slot) {
				return nil
			}
			return sovereign.New(sovereign.Config{
				Instance: i.ID, LeaderKey: leaderKey, HeartbeatPrefix: "sovereign:heartbeat:", TTL: ttl, Grace: 5 * time.Second,
				Election: ttl / 2, Heartbeat: ttl / 3, StartDelay: i.Delay,
			})
		}
	}
}
