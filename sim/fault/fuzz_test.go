package fault

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzPlan reads any file as a plan. It is refused with its name, or it is saved and loaded as the same plan, and Available says whether it
// can run.
func FuzzPlan(f *testing.F) {
	for _, text := range []string{
		`{"version":1,"seed":7,"faults":[{"atMs":1000,"kind":"crash","target":"node-1","forMs":500}]}`, `{"version":2}`, `{"version":1,"faults":null}`, "",
		`{"version":1,"faults":[{"atMs":1,"kind":"redis-noperm","deny":"+get","forMs":1,"lone":true}]}`, `{"version":1,"faults":[{"atMs":1e3,"kind":"?"}]}`,
		`{"version":1,"faults":[{"atMs":-9223372036854775808,"kind":"latency","ms":9223372036854775807}]}`, `{"version":1}{}`, "[]", "\xff",
		`{"version":1,"faults":[{"kind":"session-add","ms":99999999,"forMs":0,"atMs":0},{"kind":"join","target":"node-4"}]}`,
	} {
		f.Add(text)
	}
	const file = "plan.json"
	again := filepath.Join(f.TempDir(), "again.json")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(file, []byte(text))
		if err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if err := p.Save(again); err != nil {
			t.Fatal(err)
		}
		saved, err := os.ReadFile(again)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(again, saved)
		if len(p.Faults) == 0 {
			p.Faults = got.Faults // none, or an empty list
		}
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%q is %+v, saved and loaded %+v, %v", text, p, got, err)
		}
		err = p.Validate(Limits{Nodes: 3, Sessions: 5, Storm: time.Minute})
		if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnknownKind) && !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// FuzzKinds reads any list of kinds. Accepted kinds are known, named once, and can be injected.
func FuzzKinds(f *testing.F) {
	f.Add("crash,blackhole", false)
	f.Add(" crash , ,crash", true)
	f.Add("?", true)
	f.Fuzz(func(t *testing.T, list string, virtual bool) {
		got, err := ParseKinds(list, virtual)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnknownKind) && !errors.Is(err, ErrUnavailable) {
				t.Fatalf("%q: %v", list, err)
			}
			return
		}
		for i, k := range got {
			if k.AvailableOn(virtual) != nil || slices.Contains(got[:i], k) || !strings.Contains(list, string(k)) {
				t.Fatalf("%q is %q", list, got)
			}
		}
		if text, err := json.Marshal(got); err != nil || len(got) == 0 {
			t.Fatalf("%q is %s, %v", list, text, err)
		}
	})
}
