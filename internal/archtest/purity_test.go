package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// pure are the packages that must give the same output for the same input, on any machine, in any run. The linter excludes clocks, random
// sources and I/O (.golangci.yml). This test excludes what no linter finds.
var pure = []string{"internal/term", "internal/member", "internal/pause", "internal/place", "internal/core", "internal/policy", "sim/virtual", "sim/fault"}

func TestPurePackagesArePure(t *testing.T) {
	for path, p := range loaded(t) {
		if !under(path, pure...) {
			continue
		}
		for _, s := range impurities(p.Fset, p.Syntax, p.TypesInfo) {
			t.Error(s)
		}
	}
}

// impurities lists code whose outcome depends on more than its input.
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
			}
			return true
		})
	}
	return out
}

// Only internal/redisstore and, for intents, lease/intent/store send commands to Redis. The rest of lease passes a client on. Exceptions:
// lease/poll reads the application's sessions, and lease/leasetest is a Redis and closes its own client.
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
		"Close", "Err", "Get", "Pipelined", "Result", "Type", "Val",
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
