package store

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// No script calls a command that the rules of a worker leave out.
func TestRulesHaveTheCommandsOfScripts(t *testing.T) {
	opt := Options{}.withDefaults()
	rules := opt.workerRules()
	calls := regexp.MustCompile(`p?call\('([A-Z]+)'`)
	for _, text := range []string{commonText, putText, stopText, writeText, beatText, leaveText, sweepText, disownText, buryText,
		requeueText, busyText, leaseText} {
		for _, call := range calls.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(rules.Commands, strings.ToLower(call[1])) {
				t.Errorf("a script calls %s, which no rule allows", call[1])
			}
		}
	}
}
