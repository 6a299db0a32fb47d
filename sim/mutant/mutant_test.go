package mutant

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/check"
)

const root = "../.."

// Every mutant still finds the words that it changes, is told apart by its name, and has a guarantee and one way of being
// caught by it.
func TestMutantsAreArmed(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		if _, err := m.Apply(root); err != nil {
			t.Error(err)
		}
		if names[m.Name] || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(m.Name) || m.Story == "" || len(m.Edits) == 0 {
			t.Errorf("%+v: a mutant needs a name of its own, a story and an edit", m)
		}
		names[m.Name] = true
		if !slices.Contains(check.IDs(m.Scenario.System), m.Breaks) {
			t.Errorf("%s breaks %q, which is no guarantee", m.Name, m.Breaks)
		}
		ways := 0
		for _, way := range []bool{m.Seeds > 0, m.Test != ""} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%s: %d ways of being caught, want one of seeds, test", m.Name, ways)
		}
		if m.Test != "" {
			testCites(t, m)
		}
	}
}

// testCites holds a mutant's test against its guarantee: the signature names it.
func testCites(t *testing.T, m Mutant) {
	files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "func "+m.Test+"(") {
				if _, cited, _ := strings.Cut(line, "//"); !slices.Contains(strings.Fields(strings.ReplaceAll(cited, ",", " ")), m.Breaks) {
					t.Errorf("%s: the signature of %s in %s does not cite %s", m.Name, m.Test, f, m.Breaks)
				}
				return
			}
		}
	}
	t.Errorf("%s: no test %s in %s", m.Name, m.Test, m.Package)
}

// A mutant whose words have changed, or stand there twice, is refused.
func TestDisarmedMutantIsRefused(t *testing.T) {
	for _, old := range []string{"no such words", "package core"} {
		m := Mutant{Name: "m", Edits: []Edit{{coreFile, old, old}, {coreFile, "func (c *Core)", "func (c *Core)"}}}
		if _, err := m.Apply(root); err == nil || !strings.Contains(err.Error(), "disarmed") {
			t.Errorf("%q: %v", old, err)
		}
	}
}
