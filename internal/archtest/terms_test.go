package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const corePackage = "internal/core"

// kernelOwn reports whether a file of the core is one of the safety kernel's, or of what it may refer to.
func kernelOwn(file string) (kernel, known bool) {
	name := filepath.Base(file)
	kernel = name == "terms.go" || strings.HasPrefix(name, "terms_")
	return kernel, kernel || name == "ports.go" || name == "config.go"
}

// driven are the fields of the kernel that whoever drives it sets: what a lease is asked for, and that an op was sent for it.
var driven = []string{"op", "phase", "rejected"}

// Safety is argued from the files of terms alone: they refer to nothing of placement, heartbeats and looks, and no other file
// changes what trust rests on.
func TestTermsStandAlone(t *testing.T) {
	p, ok := loaded(t)[corePackage]
	if !ok {
		t.Fatal("no package " + corePackage)
	}
	kernels := 0
	for _, f := range p.Syntax {
		if kernel, _ := kernelOwn(p.Fset.Position(f.Package).Filename); kernel {
			kernels++
		}
	}
	if kernels == 0 {
		t.Fatal("no file of terms")
	}
	for _, s := range trespasses(p.Fset, p.Syntax, p.TypesInfo) {
		t.Error(s)
	}
}

// trespasses are what files of terms refer to elsewhere, and what others change of terms.
func trespasses(fset *token.FileSet, files []*ast.File, info *types.Info) (all []string) {
	declared := func(id *ast.Ident) (obj types.Object, kernel, known bool) {
		obj = info.Uses[id]
		if obj == nil || obj.Pkg() == nil || obj.Pkg().Name() != "core" {
			return nil, false, true
		}
		kernel, known = kernelOwn(fset.Position(obj.Pos()).Filename)
		return obj, kernel, known
	}
	for _, f := range files {
		inside, _ := kernelOwn(fset.Position(f.Package).Filename)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if _, _, known := declared(n); inside && !known {
					all = append(all, fmt.Sprintf("%s: terms know nothing of %s", fset.Position(n.Pos()), n.Name))
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					sel, ok := to.(*ast.SelectorExpr)
					if !ok || inside {
						continue
					}
					obj, kernel, _ := declared(sel.Sel)
					if v, field := obj.(*types.Var); kernel && field && v.IsField() && !slices.Contains(driven, sel.Sel.Name) {
						all = append(all, fmt.Sprintf("%s: only terms change %s", fset.Position(n.Pos()), sel.Sel.Name))
					}
				}
			}
			return true
		})
	}
	return all
}

// Both rules catch what breaks them.
func TestTermsRulesCatch(t *testing.T) {
	fset := token.NewFileSet()
	files := parsed(t, fset, map[string]string{
		"terms.go":  "package core\ntype terms struct{ until, op int }\nfunc (k *terms) f(c *fleet) { c.dirty = true }\n",
		"fleet.go":  "package core\ntype fleet struct{ dirty bool }\nfunc (*fleet) f(k *terms) { k.until = 1; k.op = 2 }\n",
		"config.go": "package core\n",
	})
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{}).Check("core", fset, files, info); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(trespasses(fset, files, info), "\n")
	for _, want := range []string{"terms know nothing of fleet", "terms know nothing of dirty", "only terms change until"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not found in\n%s", want, got)
		}
	}
	if strings.Contains(got, "change op") {
		t.Errorf("what drives it is refused:\n%s", got)
	}
}

func parsed(t *testing.T, fset *token.FileSet, text map[string]string) (files []*ast.File) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(text)) {
		f, err := parser.ParseFile(fset, name, text[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}
