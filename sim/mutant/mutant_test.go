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
		if names[m.Name] || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(m.Name) || m.Story == "" || len(m.files()) == 0 {
			t.Errorf("%s: a mutant needs a name of its own, a story and a change", m.Name)
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

// Every operator is tried on every area, or it is said why not.
func TestEveryOperatorIsTried(t *testing.T) {
	tried := map[string]map[Operator]bool{}
	for area, mutants := range areas() {
		tried[area] = map[Operator]bool{}
		for _, m := range mutants {
			tried[area][m.By] = true
		}
	}
	for _, area := range Areas {
		for _, by := range Operators {
			if why := senseless[area][by]; tried[area][by] == (why != "") {
				t.Errorf("%s, %s: tried is %v, and why not: %q", area, by, tried[area][by], why)
			}
		}
	}
	for _, m := range All() {
		if !slices.Contains(Operators, m.By) {
			t.Errorf("%s has no operator", m.Name)
		}
	}
}

// Every comparison of every script has a mutant that does not look at it, or is listed with what became of that.
func TestEveryComparisonIsDropped(t *testing.T) {
	known := map[string]bool{}
	for _, m := range drops() {
		known[m.Name] = true
	}
	for _, s := range spared {
		if known[s.Drop.Name()] || s.Why == "" {
			t.Errorf("%s: listed twice, or without why", s.Drop.Name())
		}
		known[s.Drop.Name()] = true
	}
	for _, lua := range []string{luaDir, intentLua} {
		files, err := filepath.Glob(filepath.Join(root, lua, "*.lua"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range Drops(lua+filepath.Base(f), string(text)) {
				if !known[d.Name()] {
					t.Errorf("%s: `%s` of %s has no mutant", d.Name(), d.What, f)
				}
				delete(known, d.Name())
			}
		}
	}
	for name := range known {
		t.Errorf("%s: no script has that comparison", name)
	}
}

// A turn is the same for the same sources, and three of them make all.
func TestThirds(t *testing.T) {
	first, err := Turn(root)
	if second, _ := Turn(root); err != nil || first != second || first < 0 || first > 2 {
		t.Errorf("turns %d, %d, %v", first, second, err)
	}
	seen := map[string]int{}
	for which := range 3 {
		for _, m := range Third(All(), which) {
			seen[m.Name]++
		}
	}
	for _, m := range All() {
		if seen[m.Name] != 1 {
			t.Errorf("%s is in %d thirds", m.Name, seen[m.Name])
		}
	}
}

// The mark stands before the statement that was changed, or where it was.
func TestMarks(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"x > 1", "x > 2", "mutantMark(); if x > 2 {"},
		{"return 1", "return 9", "mutantMark(); return 9"},
		{" - 5", "", "mutantMark(); return 3\n"},
		{"	y()\n", "", "mutantMark(); return 3 - 5"},
		{"case 7:", "case 8:", "mutantMark(); switch x {\n\tcase 8:"},
	} {
		const text = "package p\n\nfunc f(x int) int {\n	if x > 1 {\n		return 1\n	}\n	switch x {\n	case 7:\n		y()\n	}\n	y()\n	return 3 - 5\n}\n"
		from := strings.LastIndex(text, tt.old)
		changed, places := replaceAt(text, from, tt.old, tt.new, nil)
		got, pkg, err := markGo("p.go", changed, places)
		if err != nil || pkg != "p" || !strings.Contains(got, tt.want) || strings.Count(got, "mutantMark") != 1 {
			t.Errorf("%q by %q: %v\n%s", tt.old, tt.new, err, got)
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
