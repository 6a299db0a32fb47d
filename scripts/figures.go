//go:build ignore

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"log"
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

type figures struct{ code, tests, words int }

func main() {
	check := flag.Bool("check", false, "fail if the project is more than 2 % above the last line of "+history)
	flag.Parse()
	log.SetFlags(0)
	total, byDir := count()
	if *check {
		compare(total)
		return
	}
	printPackages(byDir)
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
		generated := path == "THIRD_PARTY_NOTICES.md" || path == "docs/allowances.md"
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

func printPackages(byDir map[string]figures) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports |
		packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo}, "./...")
	if err != nil {
		log.Fatalf("figures: %v", err)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "code\ttests\tupward\tof imports\texported\t  package")
	for _, p := range pkgs {
		dir := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, module), "/"), ".")
		g := fileGraph(p)
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

// upward counts the imports that point up once files are in layers: the file that is used most, for what it uses itself, is lowest.
// It takes files away from both ends (Eades, Lin, Smyth), which finds an order with few upward imports.
func (g graph) upward() int {
	left := map[string]bool{}
	for f := range g {
		left[f] = true
	}
	degrees := func(f string) (in, out int) {
		for other := range left {
			if g[other][f] {
				in++
			}
			if g[f][other] {
				out++
			}
		}
		return in, out
	}
	var top, bottom []string
	for len(left) > 0 {
		files := make([]string, 0, len(left))
		for f := range left {
			files = append(files, f)
		}
		slices.Sort(files)
		pick, best, low := "", -1<<31, false
		for _, f := range files {
			in, out := degrees(f)
			if out == 0 {
				pick, low = f, true
				break
			}
			if in == 0 {
				pick = f
				break
			}
			if out-in > best {
				pick, best = f, out-in
			}
		}
		delete(left, pick)
		if low {
			bottom = append(bottom, pick)
		} else {
			top = append(top, pick)
		}
	}
	slices.Reverse(bottom)
	place := map[string]int{}
	for i, f := range append(top, bottom...) {
		place[f] = i
	}
	n := 0
	for from, tos := range g {
		for to := range tos {
			if place[to] < place[from] {
				n++
			}
		}
	}
	return n
}
