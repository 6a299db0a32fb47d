package mutant

import (
	_ "embed" // the file that calls the marks of scripts
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// A mutant proves that its changed code ran: what is changed is given a mark, which writes the file that markEnv names when it
// is come by. In Go it is a call before the statement that was changed. In Lua it is a comment behind the line that was, before
// whose statement the interpreter of virtual time calls the same; a Redis server reads the comment as one.
const (
	markEnv  = "MUTANT_MARK"
	luaMark  = " -- mutated"
	goMark   = "mutantMark(); "
	markText = `package %s

import (
	_ "embed" // the file that calls the marks of scripts
	"os"
	"sync"
)

var mutantMark = sync.OnceFunc(func() { _ = os.WriteFile(os.Getenv("MUTANT_MARK"), nil, 0o644) })
`
)

// place is where a file was changed: the offset of the first byte that differs, in its text as it has become.
type place struct{ at int }

// replaceAt replaces the words at from and moves the places behind them.
func replaceAt(text string, from int, words, by string, places []place) (string, []place) {
	for i := range places {
		if places[i].at > from {
			places[i].at += len(by) - len(words)
		}
	}
	same := 0
	for same < min(len(words), len(by)) && words[same] == by[same] {
		same++
	}
	return text[:from] + by + text[from+len(words):], append(places, place{from + same})
}

// markLua marks the lines of the places.
func markLua(text string, places []place) string {
	ends := map[int]bool{}
	for _, p := range places {
		end := len(text)
		if n := strings.IndexByte(text[min(p.at, len(text)):], '\n'); n >= 0 {
			end = p.at + n
		}
		ends[end] = true
	}
	return insertAt(text, ends, luaMark)
}

// markGo marks the statements of the places that are in one, and returns the name of the package.
func markGo(file, text string, places []place) (marked, pkg string, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path.Base(file), text, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	start := set.File(f.Pos()).Pos(0)
	at := map[int]bool{}
	for _, p := range places {
		if pos := statementAt(f, start+token.Pos(p.at)); pos.IsValid() {
			at[int(pos-start)] = true
		}
	}
	if len(at) == 0 {
		return text, "", nil
	}
	return insertAt(text, at, goMark), f.Name.Name, nil
}

// statementAt returns where a statement can be put so that it is executed before what stands at p.
func statementAt(f *ast.File, p token.Pos) (found token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil || p < n.Pos() || p > n.End() {
			return false
		}
		var list []ast.Stmt
		var begin token.Pos
		end := n.End()
		switch b := n.(type) {
		case *ast.BlockStmt:
			list, begin, end = b.List, b.Lbrace, b.Rbrace
		case *ast.CaseClause:
			list, begin = b.Body, b.Colon
		case *ast.CommClause:
			list, begin = b.Body, b.Colon
		default:
			return true
		}
		if p <= begin || p > end || isClauses(list) {
			return true
		}
		found = end
		if i := slices.IndexFunc(list, func(s ast.Stmt) bool { return s.End() >= p }); i >= 0 {
			found = list[i].Pos()
		}
		return true
	})
	return found
}

func isClauses(list []ast.Stmt) bool {
	return slices.ContainsFunc(list, func(s ast.Stmt) bool {
		switch s.(type) {
		case *ast.CaseClause, *ast.CommClause:
			return true
		}
		return false
	})
}

func insertAt(text string, offsets map[int]bool, what string) string {
	var at []int
	for o := range offsets {
		at = append(at, o)
	}
	slices.Sort(at)
	for _, o := range slices.Backward(at) {
		text = text[:o] + what + text[o:]
	}
	return text
}

// markOf is the file that declares the mark in a package.
func markOf(dir, pkg string) (file, text string) {
	return path.Join(dir, "a_mutantmark.go"), fmt.Sprintf(markText, pkg)
}

// marksText is the file that calls the marks: it belongs to the package of the interpreter, and to hunters only.
//
//go:embed marks/mutantmarks.go.txt
var marksText string

// Files that hunters of scripts have in addition: the interpreter calls the mark of scripts.
const (
	interpreterFile = "sim/virtual/interpreter.go"
	interpreterOld  = `lua.Compile(chunk, "@user_script")`
	interpreterNew  = `lua.Compile(mutantMarks(l, chunk, text), "@user_script")`
	marksFile       = "sim/virtual/a_mutantmarks.go"
)
