package sim

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

func TestDefaults(t *testing.T) {
	c, err := Scenario{}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if c.Seed == 0 {
		t.Error("no seed was drawn")
	}
	c.Seed = 0
	want := Config{
		Name: "storm", Engine: "real", Topology: "single", System: "polling", Nodes: 10, Sessions: 100, Speed: 10,
		Timings: Timings{
			TTL: 3 * time.Second, Renew: time.Second, RenewTimeout: 300 * time.Millisecond, Heartbeat: time.Second, Discovery: time.Second,
			Poll: 500 * time.Millisecond, PollTimeout: 500 * time.Millisecond, Serve: 10 * time.Millisecond,
		},
		Storm: 53 * time.Second, Calm: 7 * time.Second,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Scenario
		got  func(Config) any
		want any
	}{
		{"the specification's own timing", Scenario{Speed: 1}, func(c Config) any { return c.TTL }, 30 * time.Second},
		{"five minutes of it", Scenario{Speed: 1}, Config.duration, 5 * time.Minute},
		{"never under a minute", Scenario{Speed: 20}, Config.duration, time.Minute},
		{"a file's duration is divided", Scenario{Duration: 5 * time.Minute}, Config.duration, 30 * time.Second},
		{"a flag's is not", Scenario{Fixed: Fixed{Duration: 20 * time.Second}}, Config.duration, 20 * time.Second},
		{"a file's timing is divided", Scenario{Timings: Timings{Renew: 5 * time.Second}},
			func(c Config) any { return c.Renew }, 500 * time.Millisecond},
		{"a flag wins", Scenario{Timings: Timings{Renew: 5 * time.Second}, Fixed: Fixed{Renew: time.Second}},
			func(c Config) any { return c.Renew }, time.Second},
		{"renewal follows the TTL", Scenario{Fixed: Fixed{TTL: 6 * time.Second}},
			func(c Config) any { return c.Renew }, 2 * time.Second},
		{"so do looks at all there is, as those of the nodes do", Scenario{Fixed: Fixed{TTL: 6 * time.Second}},
			func(c Config) any { return c.Discovery }, 2 * time.Second},
		{"unless a file says how often", Scenario{Timings: Timings{Discovery: 4 * time.Second}, Fixed: Fixed{TTL: 6 * time.Second}},
			func(c Config) any { return c.Discovery }, 400 * time.Millisecond},
		{"a plan is divided", Scenario{Plan: []fault.Fault{{At: 30 * time.Second, Kind: fault.RedisFlush}}},
			func(c Config) any { return c.Plan.Faults[0].At }, 3 * time.Second},
		{"so is how late it makes things",
			Scenario{Plan: []fault.Fault{{Kind: fault.Latency, Target: "node-1", For: time.Minute, Ms: 40_000, Jitter: 5}}},
			func(c Config) any { return [2]int64{c.Plan.Faults[0].Ms, c.Plan.Faults[0].Jitter} }, [2]int64{4000, 1}},
		{"but not how many sessions it adds", Scenario{Plan: []fault.Fault{{Kind: fault.SessionAdd, Ms: 20}}},
			func(c Config) any { return c.Plan.Faults[0].Ms }, int64(20)},
		{"nor a drift and its direction", Scenario{Engine: EngineVirtual, Speed: 10, Plan: []fault.Fault{
			{Kind: fault.ClockDrift, Target: "node-1", For: time.Minute, Ms: 3000, Jitter: 1}}},
			func(c Config) any { return [2]int64{c.Plan.Faults[0].Ms, c.Plan.Faults[0].Jitter} }, [2]int64{3000, 1}},
		{"a step is, and not its direction", Scenario{Engine: EngineVirtual, Speed: 10, Plan: []fault.Fault{
			{Kind: fault.ClockStep, Target: "node-1", Ms: 3000}}},
			func(c Config) any { return [2]int64{c.Plan.Faults[0].Ms, c.Plan.Faults[0].Jitter} }, [2]int64{300, 0}},
	} {
		cfg, err := c.s.Resolve()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := c.got(cfg); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func (c Config) duration() any { return c.Duration() }

func TestResolveRefuses(t *testing.T) {
	for _, c := range []struct {
		s    Scenario
		key  string
		says string
	}{
		{Scenario{Nodes: -1}, "nodes", "1 to 500"},
		{Scenario{Nodes: 501}, "nodes", "1 to 500"},
		{Scenario{Sessions: 1 << 40}, "sessions", "out of bounds"},
		{Scenario{Speed: -1}, "speed", "out of bounds"},
		{Scenario{Speed: 1000}, "speed", "out of bounds"},
		{Scenario{Name: "../x"}, "name", "a-z"},
		{Scenario{System: "election", Sessions: 2}, "sessions", "exactly 1"},
		{Scenario{System: "election", Faults: []fault.Kind{fault.SessionAdd}}, "faults[0]", "makes no sense"},
		{Scenario{System: "election", Criteria: []string{"G1"}}, "criteria", "choose from E1, E2, "},
		{Scenario{System: "chess"}, "system", "choose from polling"},
		{Scenario{Criteria: []string{"G15"}}, "criteria", "choose from G1, G2, "},
		{Scenario{Fixed: Fixed{TTL: time.Second, Renew: time.Second}}, "timings.renew", "shorter than the TTL"},
		{Scenario{Fixed: Fixed{TTL: time.Second, Renew: 900 * time.Millisecond}}, "timings.renew", "no time for an answer"},
		{Scenario{System: "intents", Fixed: Fixed{TTL: 3 * time.Second, Renew: 2200 * time.Millisecond}}, "timings.renew", "asked to stop"},
		{Scenario{Timings: Timings{Heartbeat: time.Minute}}, "timings.heartbeat", "shorter than the TTL"},
		{Scenario{Timings: Timings{PollTimeout: time.Minute}}, "timings.pollTimeout", "longPolls: true"},
		{Scenario{Timings: Timings{Serve: 5 * time.Second}}, "timings.serve", "shorter than the poll time-out"},
		{Scenario{Fixed: Fixed{TTL: time.Millisecond}}, "timings.ttl", "500ms to"},
		{Scenario{Timings: Timings{Poll: -time.Second}}, "timings.poll", "too short"},
		{Scenario{Fixed: Fixed{Duration: time.Millisecond}}, "duration", "out of bounds"},
		{Scenario{Plan: []fault.Fault{{Kind: fault.Crash, Target: "node-11"}}}, "plan[0]", "does not take part"},
		{Scenario{Faults: []fault.Kind{"meteor"}}, "faults[0]", "choose from crash"},
		{Scenario{Faults: []fault.Kind{fault.RedisSentinel}}, "faults[0]", "later version"},
	} {
		_, err := c.s.Resolve()
		var k *KeyError
		switch {
		case !errors.As(err, &k) || !errors.Is(err, ErrInvalid):
			t.Errorf("%+v: got %v, want a KeyError", c.s, err)
		case k.Key != c.key || !strings.Contains(err.Error(), c.says):
			t.Errorf("%+v: got %v, want key %s and %q", c.s, err, c.key, c.says)
		}
	}
	long := Scenario{Timings: Timings{PollTimeout: time.Minute}, LongPolls: true}
	if _, err := long.Resolve(); err != nil {
		t.Errorf("long polls were allowed, but: %v", err)
	}
}

// A mistake in a scenario file is found at its line and column.
func TestFileRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":            {" \n", "is empty"},
		"not YAML":         {"nodes: [1\n", ".yaml:1:"},
		"a list":           {"- nodes\n", ".yaml:1:"},
		"unknown key":      {"nodes: 3\nnode: 4\n", `.yaml:2:1: unknown field "node"`},
		"unknown inside":   {"timings:\n  ttl: 3s\n  tll: 3s\n", `.yaml:3:3: unknown field "tll"`},
		"twice":            {"nodes: 3\nnodes: 4\n", ".yaml:2:1: "},
		"wrong type":       {"sessions: 9\nnodes: many\n", ".yaml:2:8: "},
		"no duration":      {"timings:\n  ttl: 30\n", ".yaml:2:8: "},
		"zero":             {"nodes: 0\n", ".yaml:1:8: nodes: must be more than zero"},
		"zero inside":      {"timings:\n  ttl: 0s\n", ".yaml:2:8: timings.ttl: must be more than zero"},
		"too many":         {"sessions: 9\nnodes: 5000\n", ".yaml:2:8: nodes: 5000 is out of bounds"},
		"contradiction":    {"timings:\n  ttl: 30s\n  renew: 30s\n", ".yaml:3:10: timings.renew: 3s must be shorter"},
		"unknown fault":    {"faults: [crash, meteor]\n", ".yaml:1:17: faults[1]: unknown fault \"meteor\": choose from crash"},
		"fault for later":  {"faults:\n  - redis-failover\n", ".yaml:2:5: faults[0]: fault not available"},
		"fault in plan":    {"plan:\n  - {at: 1s, kind: crsh, target: node-1}\n", ".yaml:2:20: plan[0].kind: unknown fault"},
		"target in plan":   {"plan:\n  - {at: 1s, kind: crash, target: node-99}\n", ".yaml:2:5: plan[0]: fault 1: "},
		"unknown criteria": {"criteria: [G1, G99]\n", "unknown guarantee \"G99\""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Load(file)
			if err == nil {
				_, err = s.Resolve()
			}
			switch {
			case err == nil:
				t.Fatal("accepted")
			case !errors.Is(err, ErrInvalid):
				t.Errorf("%v is not ErrInvalid", err)
			case !strings.Contains(err.Error(), c.says):
				t.Errorf("got  %v\nwant %s", err, c.says)
			case strings.Contains(err.Error(), "\n"):
				t.Errorf("more than one line: %q", err)
			}
		})
	}
	if _, err := Load("no/such.yaml"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "membership") {
		t.Errorf("a missing file: got %v, want the built-in names", err)
	}
}

func TestBuiltinScenariosResolve(t *testing.T) {
	for _, s := range Builtin() {
		if s.Description == "" || !nameForm.MatchString(s.Name) {
			t.Errorf("%q: every built-in scenario has a name and a line of description", s.Name)
		}
		c, err := s.Resolve()
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		plan, err := c.Draw(func(fault.Kind) error { return nil })
		if err != nil || len(plan.Faults) == 0 {
			t.Errorf("%s: draws %d faults, %v", s.Name, len(plan.Faults), err)
		}
		if again, err := Load(s.Name); err != nil || again.Name != s.Name {
			t.Errorf("%s: not found by its name: %v", s.Name, err)
		}
	}
}

// A built-in scenario plays every kind of fault that it names, with any seed.
func TestBuiltinScenariosPlayEveryKind(t *testing.T) {
	for _, engine := range []string{EngineReal, EngineVirtual} {
		supported := func(k fault.Kind) error { return k.AvailableOn(engine == EngineVirtual) }
		for _, s := range Builtin() {
			for s.Engine, s.Seed = engine, 1; s.Seed <= 200; s.Seed++ {
				c, err := s.Resolve()
				if err != nil {
					t.Fatalf("%s: %v", s.Name, err)
				}
				plan, err := c.Draw(supported)
				if err != nil {
					t.Fatalf("%s: %v", s.Name, err)
				}
				for _, k := range s.Faults {
					if !slices.ContainsFunc(plan.Faults, func(f fault.Fault) bool { return f.Kind == k && f.Lone }) {
						t.Errorf("%s on the %s engine, seed %d: %s does not hit alone", s.Name, engine, s.Seed, k)
					}
				}
			}
		}
	}
}

// A run's saved file gives the same run, at any speed.
func TestSavedConfigIsTheSame(t *testing.T) {
	for _, s := range []Scenario{
		{}, {Speed: 1}, {Speed: 7, Nodes: 3, Seed: 1<<64 - 1, Faults: []fault.Kind{fault.Crash}, Criteria: []string{"G1"}},
		{Fixed: Fixed{TTL: 1234567890, Duration: 12345 * time.Millisecond}, NodeCmd: []string{"python3", "a b.py"}},
	} {
		c, err := s.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := c.Draw(func(fault.Kind) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := errors.Join(c.Save(filepath.Join(dir, report.ScenarioName)), plan.Save(filepath.Join(dir, report.PlanName))); err != nil {
			t.Fatal(err)
		}
		files, err := report.ReadFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		begun := report.New(report.Meta{Sums: files.Sums()}, params(c, plan, real.Outcome{}, ""), check.Result{})
		if err := begun.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := LoadRun(dir)
		if err != nil {
			t.Fatal(err)
		}
		c.Plan, c.Speed = &plan, 1
		if !reflect.DeepEqual(again, c) {
			t.Errorf("saved  %+v\nloaded %+v", c, again)
		}
	}
}

func TestDrawAsksTheEngine(t *testing.T) {
	no := errors.New("the embedded Redis cannot be killed")
	embedded := func(k fault.Kind) error {
		if k == fault.RedisWipe {
			return no
		}
		return nil
	}
	c, err := Scenario{Seed: 1}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := c.Draw(embedded)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plan.Faults {
		if f.Kind == fault.RedisWipe {
			t.Error("drew a fault that the engine cannot inject")
		}
	}
	c.Faults = []fault.Kind{fault.RedisWipe}
	if _, err := c.Draw(embedded); !errors.Is(err, no) {
		t.Errorf("named by hand: got %v, want the engine's reason", err)
	}
	c.Faults, c.Plan = nil, &fault.Plan{Faults: []fault.Fault{{Kind: fault.RedisWipe}}}
	if _, err := c.Draw(embedded); !errors.Is(err, no) {
		t.Errorf("in a plan: got %v, want the engine's reason", err)
	}
}

func TestAByteOrderMarkIsSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("\ufeffnodes: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(file); err != nil || s.Nodes != 3 {
		t.Errorf("%d nodes, %v", s.Nodes, err)
	}
}
