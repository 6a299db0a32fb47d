package core

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/term"
)

// termIn returns a term in a phase; with flags of 1 or more an owned one is uncertain, with 3 it is to be reasserted, too.
func termIn(phase term.Phase, flags int) (t term.Term) {
	k := term.New(term.Config{TTL: Second})
	switch phase {
	case acquiring:
		t.Acquire()
	case owned, releasing:
		k.Begin(&t, &Op{Seq: 1, TTL: Second}, 1)
	}
	if flags&1 > 0 {
		k.Doubt(&t)
	}
	if flags&3 == 3 {
		t.Forgot()
	}
	if phase == releasing {
		t.End(releasing)
	}
	return t
}

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
		if f != "lease.go" && !strings.HasSuffix(f, "_test.go") && sets.Match(text) {
			t.Errorf("%s sets what a lease does next: call will", f)
		}
	}
	told := Unlisted
	defer func() { Unlisted = told }()
	var got string
	Unlisted = func(lease, state string) { got = lease + " " + state }
	l := &lease{Term: termIn(owned, 0)}
	if l.will(nextYield); got != "" {
		t.Errorf("a listed state is told: %s", got)
	}
	if l.will(nextRead); got != " owned/read" {
		t.Errorf("told %q of a state that is not listed", got)
	}
}
