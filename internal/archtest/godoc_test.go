package archtest

import (
	"go/ast"
	"strings"
	"testing"
	"unicode/utf8"
)

// Public documentation fits into 80 columns, except code.
func TestPublicDocsFitEightyColumns(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || !strings.HasPrefix(s.path, "lease/") {
			continue
		}
		ast.FileExports(s.ast)
		ast.Inspect(s.ast, func(n ast.Node) bool {
			var doc *ast.CommentGroup
			switch n := n.(type) {
			case *ast.File:
				doc = n.Doc
			case *ast.FuncDecl:
				doc = n.Doc
			case *ast.GenDecl:
				doc = n.Doc
			case *ast.TypeSpec:
				doc = n.Doc
			case *ast.ValueSpec:
				doc = n.Doc
			case *ast.Field:
				doc = n.Doc
			}
			if doc == nil {
				return true
			}
			for _, line := range doc.List {
				if n := utf8.RuneCountInString(line.Text); n > 80 && !strings.HasPrefix(line.Text, "//\t") {
					t.Errorf("%s: %d columns: %s", s.fset.Position(line.Pos()), n, line.Text)
				}
			}
			return true
		})
	}
}
