package mutant

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

// Each mutant that matches the environment's MUTANTS is caught by its guarantee, and its seed passes unchanged. "make mutants" runs all and
// prints the table.
func TestMutants(t *testing.T) {
	pattern := os.Getenv("MUTANTS")
	if pattern == "" {
		t.Skip("make mutants plays them: it takes minutes")
	}
	only, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	all := All()
	rows, begin := make([]string, len(all)), time.Now()
	t.Run("all", func(t *testing.T) {
		for i, m := range all {
			if !only.MatchString(m.Name) {
				continue
			}
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				c, err := m.Hunt(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				rows[i] = fmt.Sprintf("%-40s %-3s  seed %2d breaks %-18s  %s\n", m.Name, m.Breaks, c.Seed, strings.Join(c.Broke, " "), m.Story)
			})
		}
	})
	rows = slices.DeleteFunc(rows, func(row string) bool { return row == "" })
	fmt.Printf("%s%d mutants caught by their guarantee, in %v\n", strings.Join(rows, ""), len(rows), time.Since(begin).Round(time.Second))
}

// Each guarantee has a mutant, except G11, which says that the others hold with more instances. Each mutant has a name and a guarantee.
func TestEveryGuaranteeHasAMutant(t *testing.T) {
	names, broken := map[string]bool{}, map[string]bool{}
	for _, m := range All() {
		if names[m.Name] || m.Story == "" || m.Seeds == 0 {
			t.Errorf("%s: named twice, or without story or seeds", m.Name)
		}
		names[m.Name], broken[m.Breaks] = true, true
	}
	for _, system := range check.Systems() {
		for _, id := range check.IDs(system) {
			if !broken[id] && id != "G11" {
				t.Errorf("no mutant breaks %s", id)
			}
		}
	}
}

// A script has the text that a mutant changes exactly once.
func TestEditsApply(t *testing.T) {
	for _, m := range All() {
		for _, e := range m.Lua {
			text, err := os.ReadFile(filepath.Join("../../internal/redisstore/lua", e.Script+".lua"))
			if err != nil || m.Breaks[0] == 'I' && e.Script != "pass" {
				text, err = os.ReadFile(filepath.Join("../../lease/intent/store/lua", e.Script+".lua"))
			}
			if err != nil {
				t.Error(err)
			}
			got := edited(string(text), m.Lua)
			if strings.Count(string(text), e.Old) != 1 || got == string(text) {
				t.Errorf("%s: %s.lua does not have once: %s", m.Name, e.Script, e.Old)
			}
		}
	}
}
