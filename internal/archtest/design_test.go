package archtest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	ruleOfDesign = regexp.MustCompile(`^\*\*(I\d+)\. `)
	named        = regexp.MustCompile("`([a-z0-9]+(?:-[a-z0-9]+)+)`")
)

// withoutMutant has the rules without a mutant, and the reasons.
var withoutMutant = map[string]string{"I4": "a second process with one ID is in no storm; the story twin of TestStories in internal/core has it"}

// TestRulesOfDesignHaveMutants: each rule of safety names a mutant that breaks without it, and sim/mutant has each named mutant.
func TestRulesOfDesignHaveMutants(t *testing.T) {
	known := mutants(t)
	rules, rule, names := map[string]bool{}, "", 0
	for line := range strings.Lines(read(t, "docs/design.md") + "**I0. \n") {
		if m := ruleOfDesign.FindStringSubmatch(line); m != nil {
			if rule != "" && names == 0 && withoutMutant[rule] == "" {
				t.Errorf("%s names no mutant that breaks without it", rule)
			}
			rule, names = m[1], 0
			rules[rule] = true
		}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			if names++; !known[m[1]] {
				t.Errorf("%s names %q, which is no mutant of sim/mutant", rule, m[1])
			}
		}
	}
	if len(rules) < 9 {
		t.Errorf("rules found: %v", rules)
	}
}

// mutants returns the names of all mutants.
func mutants(t *testing.T) map[string]bool {
	files, err := filepath.Glob("../../sim/mutant/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of mutants (%v)", err)
	}
	var text strings.Builder
	for _, f := range files {
		text.WriteString(read(t, strings.TrimPrefix(filepath.ToSlash(f), "../../")))
	}
	return all(`Name: "([a-z0-9-]+)", Breaks: `, text.String())
}
