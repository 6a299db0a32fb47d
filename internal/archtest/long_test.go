package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// make test omits what -short skips. make long finds these tests by name; make storms plays all of sim/real.
func TestWhatShortSkipsIsPlayed(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		for _, decl := range s.ast.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Short" {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "testing" {
					return true
				}
				seen++
				if strings.Contains(s.fset.Position(n.Pos()).Filename, "/sim/real/") {
					return true
				}
				if f, ok := decl.(*ast.FuncDecl); !ok || !strings.HasSuffix(f.Name.Name, "Long") {
					t.Errorf("%s: only a test whose name ends with Long may ask whether tests are to be short", s.fset.Position(n.Pos()))
				}
				return true
			})
		}
	}
	if seen == 0 {
		t.Error("no test asks whether tests are to be short: make long would run nothing")
	}
}
