package archtest

import (
	"go/ast"
	"os"
	"strings"
	"testing"
)

// make test leaves out what -short skips, and make long plays the packages that have a TestLong…: a test that is skipped under
// another name could be played by neither.
func TestLongTestsAreNamedSo(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !readsShort(f) {
				continue
			}
			seen++
			if !s.isTest() || !strings.HasPrefix(f.Name.Name, "TestLong") {
				t.Errorf("%s: %s asks testing.Short: only a test named TestLong… may, because make long plays those",
					s.fset.Position(f.Pos()), f.Name.Name)
			}
		}
	}
	if seen == 0 {
		t.Error("no test asks testing.Short: what is make long for?")
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "'^func TestLong'") {
		t.Error("make long does not look for '^func TestLong'")
	}
}

func readsShort(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Short" {
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && x.Name == "testing"
		}
		return !found
	})
	return found
}
