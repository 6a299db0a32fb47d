package core

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/sim/check"
)

// Every rule of looks serves a guarantee and has a story that comes out otherwise without it.
func TestEveryDiscoveryIsNeeded(t *testing.T) {
	stories, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(stories) == 0 {
		t.Fatal(stories, err)
	}
	for _, path := range stories {
		if differs(t, path, discoveryCauses-1, false) {
			t.Errorf("%s comes out otherwise although nothing is different", path)
		}
	}
	for cause := range discoveryCauses {
		r := &discoveryRules[cause]
		if r.cause == "" || !slices.Contains(check.IDs(""), r.guarantee) {
			t.Errorf("cause %d: %q serves %q, which is no guarantee", cause, r.cause, r.guarantee)
		}
		path := filepath.Join("testdata/stories", r.story)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", r.cause, err)
			continue
		}
		if !differs(t, path, cause, true) {
			t.Errorf("%s: %s comes out the same without it", r.cause, r.story)
			for _, other := range stories {
				if differs(t, other, cause, true) {
					t.Logf("%s comes out otherwise", other)
				}
			}
		}
	}
}

// differs reports whether the stories of a file come out otherwise when nothing is looked at for cause.
func differs(t *testing.T, path string, cause discoveryCause, without bool) (differs bool) {
	r := &discoveryRules[cause]
	limit := r.limit
	if without {
		r.limit = func(*fleet) bool { return false }
	}
	defer func() { r.limit = limit }()
	s := &story{epoch: "r1"}
	steps(t, path, func(d *datadriven.TestData, want string) {
		s.out.Reset()
		s.run(t, d)
		got := strings.TrimSpace(s.out.String())
		differs = differs || cmp.Or(got, "nothing") != want
	})
	return differs
}

// steps calls step for each of the stories of a file, with what it is to come to.
func steps(t *testing.T, path string, step func(d *datadriven.TestData, want string)) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n\n") {
		told, want, ok := strings.Cut(part, "\n----\n")
		if !ok {
			continue // only a comment
		}
		for strings.HasPrefix(told, "#") || strings.HasPrefix(told, "\n") {
			_, told, _ = strings.Cut(told, "\n")
		}
		line, input, _ := strings.Cut(told, "\n")
		d := &datadriven.TestData{Input: input}
		if d.Cmd, d.CmdArgs, err = datadriven.ParseLine(line); err != nil {
			t.Fatal(err)
		}
		step(d, strings.TrimSpace(want))
	}
}
