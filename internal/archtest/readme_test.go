package archtest

import (
	"go/ast"
	"os"
	"strings"
	"testing"
)

// The program in the README is the body of a compiled Example.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ := strings.Cut(rest, "```")
	want := exampleBody(t, "lease/example_test.go", "Example")
	if shown != want {
		t.Errorf("README.md shows another program than Example in lease/example_test.go; wanted between its ```go and ```:\n%s", want)
	}
}

// exampleBody returns the statements of a function as written, without their indentation.
func exampleBody(t *testing.T, path, name string) string {
	t.Helper()
	for _, s := range sources(t) {
		if s.path != path {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
				body := string(s.text[s.fset.Position(f.Body.Lbrace).Offset+1 : s.fset.Position(f.Body.Rbrace).Offset])
				return strings.TrimPrefix(strings.ReplaceAll(body, "\n\t", "\n"), "\n")
			}
		}
	}
	t.Fatalf("no function %s in %s", name, path)
	return ""
}

func TestReadmeIsShort(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(readme), "\n"); lines > 130 {
		t.Errorf("README.md has %d lines, at most 130 are allowed: link to docs/ instead", lines)
	}
}
