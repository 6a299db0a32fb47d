//go:build ignore

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/types"
	"log"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

const (
	module  = "github.com/leasestorm/leasestorm"
	history = "scripts/figures.txt"
)

// Limits of a package and of a type, outside tests. An embedded struct counts as one field.
const (
	upwardMax  = 15 // percent of the imports between a package's files
	methodsMax = 40
	fieldsMax  = 20
)

// settings are structs that a caller, a command line or a file fills: a field is a setting or a key, and no state. Their fields are not limited.
var settings = []string{
	"lease/election.Config", "sim.Scenario", "sim.scenarioYAML", "sim/page.model", "sim/real.Config", "sim/virtual.Config",
}

type figures struct{ code, tests, words int }

func main() {
	check := flag.Bool("check", false, "fail if the project is more than 2 % above the last line of "+history+", or if a package or a type exceeds its limits")
	flag.Parse()
	log.SetFlags(0)
	total, byDir := count()
	pkgs := load()
	if *check {
		compare(total)
		if wrong := exceeded(pkgs); len(wrong) > 0 {
			log.Fatalf("figures: %s", strings.Join(wrong, "\nfigures: "))
		}
		return
	}
	printPackages(pkgs, byDir)
	fmt.Printf("\ncode %d, tests %d, words of documents %d\n", total.code, total.tests, total.words)
}

// count counts the lines of Go files and the words of documents that git knows.
func count() (total figures, byDir map[string]figures) {
	out, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		log.Fatalf("figures: git ls-files: %v", err)
	}
	byDir = map[string]figures{}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		text, err := os.ReadFile(path)
		generated := slices.Contains([]string{"THIRD_PARTY_NOTICES.md", "docs/allowances.md", "docs/contenders.md"}, path)
		if err != nil || generated || strings.Contains(path, "testdata/") && strings.HasSuffix(path, ".md") {
			continue
		}
		dir, lines := filepath.Dir(path), bytes.Count(text, []byte("\n"))
		f := byDir[dir]
		switch {
		case strings.HasSuffix(path, ".md"):
			total.words += len(bytes.Fields(text))
		case strings.HasSuffix(path, "_test.go"):
			total.tests, f.tests = total.tests+lines, f.tests+lines
		default:
			total.code, f.code = total.code+lines, f.code+lines
		}
		byDir[dir] = f
	}
	return total, byDir
}

// compare ends the process if the project grew by more than 2 % since the last line of the history.
func compare(now figures) {
	file, err := os.Open(history)
	if err != nil {
		log.Fatalf("figures: %v", err)
	}
	var last string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if line := lines.Text(); line != "" && line[0] != '#' {
			last = line
		}
	}
	var then figures
	if _, err := fmt.Sscan(last, &then.code, &then.tests, &then.words); err != nil {
		log.Fatalf("figures: %s: %q does not begin with three numbers", history, last)
	}
	for _, f := range []struct {
		name      string
		now, then int
	}{{"lines of code", now.code, then.code}, {"lines of tests", now.tests, then.tests}, {"words of documents", now.words, then.words}} {
		fmt.Printf("%s: %d, %d at the last record\n", f.name, f.now, f.then)
		if f.now*100 > f.then*102 {
			log.Fatalf("figures: %s grew by more than 2 %%: delete something, or add a line to %s that says why", f.name, history)
		}
	}
}

func load() []*packages.Package {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports |
		packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo}, "./...")
	if err != nil {
		log.Fatalf("figures: %v", err)
	}
	return pkgs
}

func dirOf(p *packages.Package) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, module), "/"), ".")
}

// exceeded returns the limits that packages and types exceed.
func exceeded(pkgs []*packages.Package) (wrong []string) {
	see := func(what string, n, most int) {
		if n > most {
			wrong = append(wrong, fmt.Sprintf("%s: %d, at most %d", what, n, most))
		}
	}
	for _, p := range pkgs {
		dir, g := dirOf(p), fileGraph(p)
		if edges := g.edges(); edges > 0 {
			see("percent of imports upward: "+dir, (g.upward()*100+edges-1)/edges, upwardMax)
		}
		for _, t := range typesOf(p) {
			name := dir + "." + t.Obj().Name()
			see("methods: "+name, t.NumMethods(), methodsMax)
			if s, ok := t.Underlying().(*types.Struct); ok && !slices.Contains(settings, name) {
				see("fields: "+name, s.NumFields(), fieldsMax)
			}
		}
	}
	return wrong
}

func typesOf(p *packages.Package) (all []*types.Named) {
	for _, name := range p.Types.Scope().Names() {
		if t, ok := p.Types.Scope().Lookup(name).Type().(*types.Named); ok && t.Obj().Pkg() == p.Types {
			all = append(all, t)
		}
	}
	return all
}

func printPackages(pkgs []*packages.Package, byDir map[string]figures) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "code\ttests\tupward\tof imports\texported\t  package")
	for _, p := range pkgs {
		dir, g := dirOf(p), fileGraph(p)
		exported := 0
		for _, name := range p.Types.Scope().Names() {
			if ast.IsExported(name) {
				exported++
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t  %s\n", byDir[dir].code, byDir[dir].tests, g.upward(), g.edges(), exported, dir)
	}
	w.Flush()
}

// graph has, for each file of a package, the files whose declarations it uses.
type graph map[string]map[string]bool

func fileGraph(p *packages.Package) graph {
	g := graph{}
	for _, f := range p.Syntax {
		from := p.Fset.Position(f.Package).Filename
		g[from] = map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if obj := p.TypesInfo.Uses[id]; obj != nil && obj.Pkg() == p.Types {
				if to := p.Fset.Position(obj.Pos()).Filename; to != from {
					g[from][to] = true
				}
			}
			return true
		})
	}
	return g
}

func (g graph) edges() (n int) {
	for _, to := range g {
		n += len(to)
	}
	return n
}

// upward counts the imports that point up once files are in layers.
func (g graph) upward() (n int) {
	order := g.layers()
	for i, from := range order {
		for _, above := range order[:i] {
			if g[from][above] {
				n++
			}
		}
	}
	return n
}

// layers orders the files: the file that is used most, for what it uses itself, is lowest. It takes files away from both ends (Eades, Lin,
// Smyth), which finds an order with few upward imports.
func (g graph) layers() []string {
	var top, bottom []string
	left := slices.Sorted(maps.Keys(g))
	for len(left) > 0 {
		pick, low := g.next(left)
		if low {
			bottom = append(bottom, left[pick])
		} else {
			top = append(top, left[pick])
		}
		left = slices.Delete(left, pick, pick+1)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// next returns the index of the file to take away: one that uses no other (the lowest), or that no other uses, or that uses the most for
// what uses it.
func (g graph) next(left []string) (pick int, low bool) {
	best := math.MinInt
	for i, f := range left {
		in, out := 0, 0
		for _, other := range left {
			if g[other][f] {
				in++
			}
			if g[f][other] {
				out++
			}
		}
		switch {
		case out == 0:
			return i, true
		case in == 0:
			return i, false
		case out-in > best:
			best, pick = out-in, i
		}
	}
	return pick, false
}
