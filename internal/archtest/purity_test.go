package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// pure are the packages that must give the same output for the same input, on any machine, in any run. sim/fault is one
// of them and reads its input, a plan, from a file.
var pure = []string{"internal/core", "internal/policy", "sim/virtual", "sim/fault"}

// clockCalls of package time read a clock or wait for one. Types and arithmetic on durations are welcome.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// worldly packages see more than their arguments.
var worldly = []string{"context", "crypto/rand", "math/rand", "net", "net/http", "os", "os/exec", "sync", "syscall"}

// seeded are the only functions of math/rand/v2 that do not draw from the process's own source.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf"}

// lent are the worldly packages that a file of a pure one may use, because it runs production code that blocks: the context is
// one that its process ends, the connection and the request lead to models, and nothing of them waits for the world.
var lent = map[string][]string{
	"sim/virtual/conn.go":        {"net"},
	"sim/virtual/intentnode.go":  {"context", "net", "net/http"},
	"sim/virtual/intentcarry.go": {"context", "net/http"},
}

func TestPurePackagesArePure(t *testing.T) {
	for path, p := range loaded(t) {
		if !under(path, pure...) {
			continue
		}
		for _, s := range impurities(p.Fset, p.Syntax, p.TypesInfo) {
			t.Error(s)
		}
		for _, f := range p.Syntax {
			file := path + "/" + filepath.Base(p.Fset.Position(f.Package).Filename)
			for _, spec := range f.Imports {
				imp := strings.Trim(spec.Path.Value, `"`)
				if path != "sim/fault" && slices.Contains(worldly, imp) && !slices.Contains(lent[file], imp) {
					t.Errorf("%s imports %s: it must not touch the world", file, imp)
				}
			}
		}
	}
}

// The rules of leases count in integers: a rounding that differs between machines would be a decision that differs.
func TestCoreHasNoFloatingPoint(t *testing.T) {
	for path, p := range loaded(t) {
		if !under(path, "internal/core") {
			continue
		}
		for _, s := range floats(p.Fset, p.Syntax) {
			t.Error(s)
		}
	}
}

// impurities lists what makes the outcome of code depend on more than its input.
func impurities(fset *token.FileSet, files []*ast.File, info *types.Info) []string {
	var out []string
	say := func(n ast.Node, what string) {
		out = append(out, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n, "go statement: the shell owns every goroutine")
			case *ast.SelectStmt:
				say(n, "select: its choice is random")
			case *ast.ChanType:
				say(n, "channel: time and answers arrive as arguments")
			case *ast.RangeStmt:
				if t := info.TypeOf(n.X); t != nil {
					if _, ok := t.Underlying().(*types.Map); ok {
						say(n, "range over a map: its order is random; keep a slice, or range over slices.Sorted(maps.Keys(m))")
					}
				}
			case *ast.SelectorExpr:
				fn, ok := info.Uses[n.Sel].(*types.Func)
				if !ok || fn.Pkg() == nil || fn.Signature().Recv() != nil {
					return true
				}
				switch {
				case fn.Pkg().Path() == "time" && slices.Contains(clockCalls, fn.Name()):
					say(n, "time."+fn.Name()+": time arrives as an argument")
				case fn.Pkg().Path() == "math/rand/v2" && !slices.Contains(seeded, fn.Name()):
					say(n, "rand."+fn.Name()+" draws from the process's own source: draw from the run's seed")
				}
			}
			return true
		})
	}
	return out
}

func floats(fset *token.FileSet, files []*ast.File) []string {
	var out []string
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			lit, isLit := n.(*ast.BasicLit)
			id, isIdent := n.(*ast.Ident)
			if isLit && lit.Kind == token.FLOAT || isIdent && (id.Name == "float64" || id.Name == "float32") {
				out = append(out, fmt.Sprintf("%s: floating point: count in integers (ppm, nanoseconds)", fset.Position(n.Pos())))
			}
			return true
		})
	}
	return out
}

func TestPurityRulesCatch(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"go statement", `go func() {}()`},
		{"select", `select {}`},
		{"channel", `var c chan int; _ = c`},
		{"range over a map", `m := map[int]int{}; for k := range m { _ = k }`},
		{"time.Now", `_ = time.Now()`},
		{"time.NewTimer", `f := time.NewTimer; _ = f`},
		{"rand.IntN", `_ = rand.IntN(3)`},
		{"floating point", `x := 0.5; _ = x`},
		{"floating point", `x := float64(1); _ = x`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := check(t, c.body)
			if len(out) == 0 || !strings.Contains(out[0], c.name) {
				t.Errorf("%s: not refused: %v", c.body, out)
			}
		})
	}
	good := `r := rand.New(rand.NewPCG(1, 2)); _ = r.IntN(3); d := time.Second; for range []int{1} { _ = d }`
	if out := check(t, good); len(out) != 0 {
		t.Errorf("%s: refused: %v", good, out)
	}
}

func check(t *testing.T, body string) []string {
	t.Helper()
	fset := token.NewFileSet()
	src := "package p\nimport (\"math/rand/v2\"; \"time\")\nvar _ = rand.New\nvar _ time.Duration\nfunc f() {\n" + body + "\n}\n"
	f, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	if _, err := conf.Check("p", fset, []*ast.File{f}, info); err != nil {
		t.Fatal(err)
	}
	return append(impurities(fset, []*ast.File{f}, info), floats(fset, []*ast.File{f})...)
}

// Redis is spoken to in internal/redisstore, and of intents in lease/intent/store. The rest of lease passes a client on;
// lease/poll reads the application's sessions with it, and knows no key of a lease. lease/leasetest is a Redis, and closes the client that it
// made.
func TestOnlyTheStoreSpeaksToRedis(t *testing.T) {
	for path, p := range loaded(t) {
		if !under(path, "lease") || under(path, "internal/redisstore", "lease/intent/store", "lease/leasetest") {
			continue
		}
		for _, s := range redisUse(p, path == "lease/poll") {
			t.Error(s)
		}
	}
}

func redisUse(p *packages.Package, mayRead bool) []string {
	reads := []string{
		"Close", "Err", "Pipelined", "Result", "Type",
	}
	var out []string
	for _, f := range p.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING && mayRead && strings.Contains(n.Value, "poll:lease:") {
					out = append(out, fmt.Sprintf("%s: a lease's key: only the store knows it", p.Fset.Position(n.Pos())))
				}
			case *ast.SelectorExpr:
				fn, ok := p.TypesInfo.Uses[n.Sel].(*types.Func)
				if !ok || fn.Pkg() == nil || !under(fn.Pkg().Path(), "github.com/redis/go-redis/v9") {
					return true
				}
				if fn.Signature().Recv() == nil || mayRead && slices.Contains(reads, fn.Name()) {
					return true
				}
				out = append(out, fmt.Sprintf("%s: %s is a Redis command: it belongs to internal/redisstore",
					p.Fset.Position(n.Pos()), fn.Name()))
			}
			return true
		})
	}
	return out
}
