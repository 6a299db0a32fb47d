package core

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a lease does next is set in one place, which sees a state that is not listed.
func TestOnlyWillSetsWhatIsNext(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	sets := regexp.MustCompile(`\bl\.next(, [^=\n]*)? = `)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if f != "next.go" && !strings.HasSuffix(f, "_test.go") && sets.Match(text) {
			t.Errorf("%s sets what a lease does next: call will", f)
		}
	}
	told := Unlisted
	defer func() { Unlisted = told }()
	var got string
	Unlisted = func(lease, state string) { got = lease + " " + state }
	l := &lease{term: term{id: "x", phase: owned}}
	if l.will(nextYield); got != "" {
		t.Errorf("a listed state is told: %s", got)
	}
	if l.will(nextTurn); got != "x owned/turn" {
		t.Errorf("told %q of a state that is not listed", got)
	}
}
