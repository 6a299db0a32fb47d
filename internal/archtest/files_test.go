package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module, tests included.
type source struct {
	path string // inside the module
	text []byte
	ast  *ast.File
	fset *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "reports") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		out = append(out, source{path: filepath.ToSlash(rel), text: text, ast: file, fset: fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A package that starts goroutines checks in its tests that none is left.
func TestGoroutinesAreAccountedFor(t *testing.T) {
	starts, checks := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if s.isTest() && s.imports("go.uber.org/goleak") {
			checks[dir] = true
		}
		// An example is a whole program and is tested as such, and so is a program of testdata.
		if s.isTest() || strings.HasPrefix(s.path, "examples/") || strings.Contains(s.path, "/testdata/") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok && starts[dir] == "" {
				starts[dir] = s.fset.Position(n.Pos()).String()
			}
			return true
		})
	}
	for dir, where := range starts {
		if !checks[dir] {
			t.Errorf("%s starts a goroutine (%s) and no test of it uses goleak", dir, where)
		}
	}
}

func (s source) imports(path string) bool { return slices.Contains(s.importPaths(), path) }

func (s source) importPaths() []string {
	var out []string
	for _, imp := range s.ast.Imports {
		if path, err := strconv.Unquote(imp.Path.Value); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// A duration in a log entry is a number of milliseconds (docs/log.md). The unit of zap.Duration depends on the encoder: slog writes ns.
func TestDurationsOfTheLogHaveOneUnit(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() && strings.Contains(string(s.text), "zap.Duration(") {
			t.Errorf("%s logs a duration in the unit of the encoder; use zap.Int64 and Milliseconds", s.path)
		}
	}
}
