package check

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Each allowance has a story whose verdict changes without it.
func TestEachAllowanceIsNeeded(t *testing.T) {
	for a := allowance(1); a < allowanceCount; a++ {
		row := allowances[a]
		file, words, _ := strings.Cut(row.story, ": ")
		if row.of == "" || row.what == "" || row.most == "" || row.why == "" || words == "" {
			t.Errorf("allowance %d has no whole row: %+v", a, row)
			continue
		}
		path := filepath.Join("testdata", "stories", file)
		text, err := os.ReadFile(path)
		all := "\n" + string(text)
		before, _, found := strings.Cut(all, "\n# "+words)
		if err != nil || !found {
			t.Errorf("%s: %s has no story that begins with %q: %v", row.what, path, words, err)
			continue
		}
		_, after, _ := strings.Cut(all[len(before)+1:], "\njudge ")
		at := fmt.Sprintf("%s:%d", path, strings.Count(all[:len(all)-len(after)], "\n"))
		needed := false
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Pos == at {
				p, ids, events := readStory(t, d)
				w := judging(p, nil)
				w.without = a
				r, _ := w.judge(sequence(events), nil)
				needed = told(r, ids) != d.Expected
			}
			return d.Expected
		})
		if !needed {
			t.Errorf("%s: the story at %s (%s) ends as it does without it", row.what, at, words)
		}
	}
}

// docs/allowances.md is the table. Run the test with -rewrite after changing it.
func TestAllowancesAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Allowances\n\nWhat the judge tolerates beyond the promises of [guarantees](guarantees.md). A test takes each one out and sees a " +
		"verdict change. Generated from `sim/check/allowances.go`.\n\n| Guarantees | What | At most | Why |\n|---|---|---|---|\n")
	for _, row := range allowances[1:] {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.of, row.what, row.most, row.why)
	}
	path := filepath.Join("..", "..", "docs", "allowances.md")
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != b.String() {
		t.Errorf("docs/allowances.md is not the table (%v): run go test ./sim/check -run Allowances -rewrite", err)
	}
}
