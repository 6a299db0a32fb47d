package fault

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPlanSurvivesItsFile(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		plan := Draw(rapid.Uint64().Draw(t, "seed"), drawAnyParams(t))
		file := filepath.Join(dir, "plan.json")
		if err := plan.Save(file); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Faults) == 0 { // saved as an empty list, not as null
			plan.Faults = loaded.Faults[:0]
		}
		if !reflect.DeepEqual(plan, loaded) {
			t.Fatalf("saved\n%s\nloaded\n%s", text(plan), text(loaded))
		}
	})
}

// The JSON of a fault is that of report.json.
func TestFaultJSON(t *testing.T) {
	f := Fault{At: 1200 * time.Millisecond, Kind: Crash, Target: "node-3"}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"atMs":1200,"kind":"crash","target":"node-3","forMs":0}`; string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		is   error
		says string
	}{
		"empty":         {"", ErrFormat, "empty"},
		"more behind":   {`{"version":1,"faults":[]}{"x":1}`, ErrFormat, "behind"},
		"cut off":       {`{"version":1,"faults":[{"atMs":1`, ErrFormat, "cut off"},
		"newer":         {`{"version":2,"faults":[]}`, ErrFormat, "version 2"},
		"unknown field": {`{"version":1,"fault":[]}`, ErrFormat, `"fault"`},
		"unknown kind":  {`{"version":1,"faults":[{"atMs":1,"kind":"meteor"}]}`, ErrUnknownKind, "choose from crash, "},
		"out of range":  {`{"version":1,"faults":[{"atMs":9223372036854775807,"kind":"crash"}]}`, ErrFormat, "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			const file = "some/plan.json"
			_, err := Parse(file, []byte(c.text))
			switch {
			case err == nil:
				t.Fatal("parsed")
			case !errors.Is(err, c.is):
				t.Errorf("got %v, want %v", err, c.is)
			case !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), file):
				t.Errorf("%q names not both %q and the file", err, c.says)
			}
		})
	}
}

func TestValidateRefuses(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		faults []Fault
		is     error
		says   string
	}{
		{[]Fault{{At: -1, Kind: Crash, Target: "node-1"}}, ErrInvalid, "outside the storm"},
		{[]Fault{{At: 11 * s, Kind: Crash, Target: "node-1"}}, ErrInvalid, "lasts 10s"},
		{[]Fault{{Kind: Freeze, Target: "node-1"}}, ErrInvalid, "needs a duration"},
		{[]Fault{{Kind: Join, Target: "node-4", For: s}}, ErrInvalid, "takes no duration"},
		{[]Fault{{Kind: Crash, Target: "node-1", For: -s}}, ErrInvalid, "must not be negative"},
		{[]Fault{{Kind: Latency, Target: "node-1", For: s}}, ErrInvalid, "needs an amount (ms)"},
		{[]Fault{{Kind: Bandwidth, Target: "node-1", For: s}}, ErrInvalid, "needs an amount (kbps)"},
		{[]Fault{{Kind: SessionAdd, Ms: 1 << 40}}, ErrInvalid, "at most 100000"},
		{[]Fault{{Kind: SessionAdd, Ms: 100_001}}, ErrInvalid, "at most 100000"},
		{[]Fault{{Kind: Latency, Target: "node-1", For: s, Ms: 86_400_001}}, ErrInvalid, "at most 86400000"},
		{[]Fault{{Kind: Latency, Target: "node-1", For: s, Ms: 1, Jitter: math.MaxInt64}}, ErrInvalid, "at most 86400000"},
		{[]Fault{{Kind: Bandwidth, Target: "node-1", For: s, KBps: math.MaxInt64}}, ErrInvalid, "at most 86400000"},
		{[]Fault{{Kind: Freeze, Target: "node-1", For: 25 * time.Hour}}, ErrInvalid, "at most 24h"},
		{[]Fault{{Kind: Crash, Target: "node-4"}}, ErrInvalid, "node-4 does not take part"},
		{[]Fault{{Kind: Crash, Target: "redis"}}, ErrInvalid, "is no node"},
		{[]Fault{{Kind: Crash, Target: "node-01"}}, ErrInvalid, "is no node"},
		{[]Fault{{Kind: Join, Target: "node-3"}}, ErrInvalid, "takes part already"},
		{[]Fault{{Kind: Leave, Target: "node-3"}, {Kind: Crash, Target: "node-3"}}, ErrInvalid, "fault 2: "},
		{[]Fault{{Kind: RedisFlush, Target: "node-1"}}, ErrInvalid, `hits "redis"`},
		{[]Fault{{Kind: CrashAll, Target: "node-1"}}, ErrInvalid, "takes no target"},
		{[]Fault{{Kind: MasterCut, For: s, Target: Owner}}, ErrInvalid, "takes no target"},
		{[]Fault{{Kind: KeyDelete, Target: "session-8"}}, ErrInvalid, "session-1 to session-7"},
		{[]Fault{{At: 2 * s, Kind: RedisFlush}, {At: s, Kind: RedisFlush}}, ErrInvalid, "in order of time"},
		{[]Fault{{Kind: "meteor"}}, ErrUnknownKind, "choose from crash"},
		{[]Fault{{Kind: ClockStep}}, ErrUnavailable, "virtual engine"},
		{[]Fault{{Kind: RedisFailover}}, ErrUnavailable, "--topology sentinel"},
		{[]Fault{{Kind: RedisNoPerm, For: s}}, ErrInvalid, "(deny), one of fences, leases, set"},
		{[]Fault{{Kind: RedisNoPerm, For: s, Deny: "everything"}}, ErrInvalid, `got "everything"`},
		{[]Fault{{Kind: RedisMemory, For: s, Deny: DenySet}}, ErrInvalid, "takes nothing away"},
	} {
		err := Plan{Faults: c.faults}.Validate(Limits{Nodes: 3, Sessions: 7, Storm: 10 * s})
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: got %v, want %v that says %q", c.faults, err, c.is, c.says)
		}
	}
}

// In virtual time, an owner may stay with the master that is cut off. A node may not, because it need not own anything.
func TestMasterCutAims(t *testing.T) {
	for target, ok := range map[string]bool{"": true, Owner: true, "owner:session-1": true, "owner:session-8": false, "node-1": false} {
		plan := Plan{Faults: []Fault{{Kind: MasterCut, For: time.Second, Target: target}}}
		if err := plan.Validate(Limits{Nodes: 3, Sessions: 7, Storm: 10 * time.Second, Virtual: true}); (err == nil) != ok {
			t.Errorf("%q: %v", target, err)
		}
	}
}

func TestParseKinds(t *testing.T) {
	got, err := ParseKinds(" crash, cut ,crash,", false)
	if err != nil || !reflect.DeepEqual(got, []Kind{Crash, Cut}) {
		t.Errorf("got %v, %v", got, err)
	}
	for list, is := range map[string]error{"": ErrInvalid, ",": ErrInvalid, "Crash": ErrUnknownKind, "suspend": ErrUnavailable} {
		if _, err := ParseKinds(list, false); !errors.Is(err, is) {
			t.Errorf("ParseKinds(%q): got %v, want %v", list, err, is)
		}
	}
}

// The table describes exactly the kinds that plan.go names.
func TestEveryKindIsDescribed(t *testing.T) {
	if len(order) != len(rows) {
		t.Fatalf("%d rows of the table describe %d kinds", len(order), len(rows))
	}
	for _, k := range order {
		if !k.Known() {
			t.Errorf("%s is listed, but not described", k)
		}
	}
}

// Any plan file is read, or refused with its name. A valid plan stays valid when it is saved again.
func FuzzPlanFile(f *testing.F) {
	f.Add(`{"version":1,"seed":1,"faults":[{"atMs":1,"kind":"crash","target":"node-1","forMs":0}]}`)
	f.Add(`{"version":1,"seed":1,"faults":[{"atMs":1,"kind":"session-add","forMs":0,"ms":100000}]}`)
	f.Add(`{"version":1,"faults":[null]}`)
	f.Add(`{"version":1,"faults":[{"atMs":-9223372036854,"kind":"join","target":"node-999999999"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("plan.json", []byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), "plan.json") {
				t.Errorf("refused by %q", err)
			}
			return
		}
		l := Limits{Nodes: 3, Sessions: 7, Storm: time.Minute, Virtual: true}
		if p.Validate(l) != nil {
			return
		}
		saved, err := p.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("plan.json", saved)
		if err != nil || again.Validate(l) != nil {
			t.Errorf("%s became %s: %v", text, saved, err)
		}
	})
}

// The effects of a plan are bounded, whatever its size.
func TestPlansOfTooMuch(t *testing.T) {
	l := Limits{Nodes: 3, Sessions: 7, Storm: time.Minute}
	add := slices.Repeat([]Fault{{Kind: SessionAdd, Ms: 100_000}}, 10)
	joins := make([]Fault, joinsMax+1)
	for i := range joins {
		joins[i] = Fault{Kind: Join, Target: NodeTarget(100 + i)}
	}
	for name, c := range map[string]struct {
		faults []Fault
		says   string
	}{
		"sessions": {add, "fault 10: invalid fault: 1000007 sessions with those that it adds: at most 1000000"},
		"nodes":    {joins, "fault 1001: invalid fault: 1004 nodes with those that joined: at most 1003"},
	} {
		if err := (Plan{Faults: c.faults}).Validate(l); err == nil || err.Error() != c.says {
			t.Errorf("%s: %v", name, err)
		}
		if err := (Plan{Faults: c.faults[:len(c.faults)-1]}).Validate(l); err != nil {
			t.Errorf("%s, one less: %v", name, err)
		}
	}
}
