package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// TestRunbookIsComplete: every state of Health, and every warning and error of docs/log.md, has a row in the runbook without empty cells.
func TestRunbookIsComplete(t *testing.T) {
	_, runbook, _ := strings.Cut(read(t, "docs/operations.md"), "\n## Runbook\n")
	runbook, _, _ = strings.Cut(runbook, "\n## ")
	var first strings.Builder // the first cells
	for line := range strings.Lines(runbook) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case !strings.HasPrefix(line, "| "):
		case len(cells) != 3 || strings.TrimSpace(cells[1]) == "" || strings.TrimSpace(cells[2]) == "":
			t.Errorf("a row of the runbook has not three cells: %s", line)
		default:
			first.WriteString(cells[0])
		}
	}
	has := func(name string) {
		if !strings.Contains(first.String(), "`"+name+"`") {
			t.Errorf("the runbook has no row for %q", name)
		}
	}
	states := regexp.MustCompile(`(?m)^\t(Health\w+) = "(.+)"`).FindAllStringSubmatch(read(t, "lease/health.go"), -1)
	if len(states) < 12 {
		t.Fatalf("lease/health.go has %d states", len(states))
	}
	for _, state := range states {
		has(state[2])
		if !strings.Contains(read(t, "lease/metrics/metrics.go"), "lease."+state[1]) {
			t.Errorf("lease/metrics does not export %s", state[1])
		}
	}
	events := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (?:warn|error)").FindAllStringSubmatch(read(t, "docs/log.md"), -1)
	if len(events) < 15 {
		t.Fatalf("docs/log.md has %d warnings and errors", len(events))
	}
	for _, event := range events {
		has(event[1])
	}
}
