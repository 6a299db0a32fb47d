package archtest

import (
	"regexp"
	"strings"
	"testing"
)

var (
	ruleOfDesign = regexp.MustCompile(`^\*\*(I\d+)\. `)
	mutantOfRow  = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)`: ")
	named        = regexp.MustCompile("`([a-z0-9]+(?:-[a-z0-9]+)+)`")
)

// withoutMutant are rules that no mutant drops, and why.
var withoutMutant = map[string]string{"I4": "a second process with one ID is in no storm; the story twin of TestStories in internal/core has it"}

// TestRulesOfDesignHaveMutants: each rule of safety names a mutant that breaks without it, and docs/mutants.md knows all that are named.
func TestRulesOfDesignHaveMutants(t *testing.T) {
	known := all(mutantOfRow.String(), read(t, "docs/mutants.md"))
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
				t.Errorf("%s names %q, which is no mutant of docs/mutants.md", rule, m[1])
			}
		}
	}
	if len(rules) < 9 {
		t.Errorf("rules found: %v", rules)
	}
}
