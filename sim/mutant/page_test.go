package mutant

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The page shows every mutant, each caught by its guarantee when it was last hunted.
func TestPageIsCurrent(t *testing.T) {
	caught, err := loadCaught(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range All() {
		if c, ok := caught[m.Name]; !ok || !slices.Contains(c.Broke, m.Breaks) || c.Seed > m.Seeds {
			t.Errorf("%s breaks %s within %d seeds; last hunted, it broke %v with seed %d: make mutants ONLY='^%s$' UPDATE=1", m.Name,
				m.Breaks, m.Seeds, c.Broke, c.Seed, m.Name)
		}
	}
	got, err := os.ReadFile(filepath.Join(root, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != page(caught) {
		t.Errorf("%s is not what the mutants and %s make of it: make mutants ONLY=nothing UPDATE=1", PageFile, CaughtFile)
	}
}
