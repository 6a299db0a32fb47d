package archtest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/leasestorm/leasestorm"

// load reads every package of the module once, without its tests. Its keys are paths inside the module ("lease/poll").
var load = sync.OnceValues(func() (map[string]*packages.Package, error) {
	pkgs, err := packages.Load(&packages.Config{
		Dir: "../..",
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo,
	}, "./...")
	if err != nil {
		return nil, err
	}
	byPath := make(map[string]*packages.Package, len(pkgs))
	for _, p := range pkgs {
		byPath[strings.TrimPrefix(p.PkgPath, module+"/")] = p
	}
	return byPath, nil
})

func loaded(t *testing.T) map[string]*packages.Package {
	t.Helper()
	pkgs, err := load()
	if err != nil {
		t.Fatalf("load the module's packages: %v", err)
	}
	if len(pkgs) == 0 {
		t.Fatal("no packages found: the rules would hold of nothing")
	}
	return pkgs
}

// graph has the imports of each package: paths inside the module without its prefix, all others unchanged.
type graph map[string][]string

func graphOf(pkgs map[string]*packages.Package) graph {
	g := make(graph, len(pkgs))
	for path, p := range pkgs {
		for imp := range p.Imports {
			g[path] = append(g[path], strings.TrimPrefix(imp, module+"/"))
		}
		slices.Sort(g[path])
	}
	return g
}

// reach returns the shortest-first chain of imports from one package to the first that matches, or nil.
func (g graph) reach(from string, match func(string) bool) []string {
	seen := map[string]bool{from: true}
	for queue := [][]string{{from}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		for _, next := range g[chain[len(chain)-1]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(chain), next)
			if match(next) {
				return longer
			}
			queue = append(queue, longer)
		}
	}
	return nil
}

// under reports whether path is one of the roots or below one.
func under(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}
