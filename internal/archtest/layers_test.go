package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const corePackage = "internal/core"

// layers are the rooms of the core by the files they consist of, lowest first. What stands nowhere is Core, above all.
var layers = []struct {
	name  string
	files []string // NAME.go and NAME_*.go
}{
	{"the boundary", []string{"ports", "config", "pauses", "rank"}},
	{"registry", []string{"registry"}},
	{"fleet", []string{"fleet", "place"}},
}

// layerOf returns where a file stands among layers.
func layerOf(file string) int {
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".go"), "_")
	for k := range layers {
		if slices.Contains(layers[k].files, name) {
			return k
		}
	}
	return len(layers)
}

// driven are the fields of a layer that whoever drives it sets, too.
var driven = map[string][]string{
	"registry": {"beat", "leave", "written", "unable", "rejoin", "othersTake"}, // that the heartbeat is to be set, and what came of it
	"fleet":    {"entered", "held"},                                            // what this instance has of a session
}

// A layer refers to nothing above it, and no other file changes its fields.
func TestLayersOfCoreStandAlone(t *testing.T) {
	p, ok := loaded(t)[corePackage]
	if !ok {
		t.Fatal("no package " + corePackage)
	}
	found := map[int]bool{}
	for _, f := range p.Syntax {
		found[layerOf(p.Fset.Position(f.Package).Filename)] = true
	}
	for k := range layers {
		if !found[k] {
			t.Error("no file of " + layers[k].name)
		}
	}
	for _, s := range trespasses(p.Fset, p.Syntax, p.TypesInfo) {
		t.Error(s)
	}
}

// trespasses are what files of a layer refer to above it, and what others change of it.
func trespasses(fset *token.FileSet, files []*ast.File, info *types.Info) (all []string) {
	at := func(n ast.Node) int { return layerOf(fset.Position(n.Pos()).Filename) }
	changed := func(to ast.Expr) {
		sel, ok := to.(*ast.SelectorExpr)
		if !ok {
			return
		}
		v, ok := info.Uses[sel.Sel].(*types.Var)
		if !ok || !v.IsField() || v.Pkg().Name() != "core" {
			return
		}
		of := layerOf(fset.Position(v.Pos()).Filename)
		if of > 0 && of < len(layers) && of != at(to) && !slices.Contains(driven[layers[of].name], v.Name()) {
			all = append(all, fmt.Sprintf("%s: only %s changes %s", fset.Position(to.Pos()), layers[of].name, v.Name()))
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				obj := info.Uses[n]
				if obj != nil && obj.Pkg() != nil && obj.Pkg().Name() == "core" && layerOf(fset.Position(obj.Pos()).Filename) > at(n) {
					all = append(all, fmt.Sprintf("%s: %s knows nothing of %s", fset.Position(n.Pos()), layers[at(n)].name, n.Name))
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					changed(to)
				}
			case *ast.IncDecStmt:
				changed(n.X)
			}
			return true
		})
	}
	return all
}
