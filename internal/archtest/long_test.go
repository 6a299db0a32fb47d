package archtest

import (
	"go/ast"
	"os"
	"strings"
	"testing"
)

// make test leaves out what -short skips, and make long plays the packages whose tests ask for it by name: who asked elsewhere
// would skip a test that nothing plays.
func TestWhatShortSkipsIsPlayed(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Short" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "testing" {
				return true
			}
			seen++
			if !s.isTest() {
				t.Errorf("%s: ask in the test itself whether tests are to be short", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no test asks whether tests are to be short: what is make long for?")
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), `'testing\.Short()'`) {
		t.Error("make long does not look for the tests that ask")
	}
}
