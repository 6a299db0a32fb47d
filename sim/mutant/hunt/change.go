package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// change replaces the bytes from From to To of a file of the module.
type change struct {
	File     string
	Line     int
	From, To int
	New      string
	line     string // original line
	old      string
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d  %s → %s  in  %s", c.File, c.Line, oneLine(c.old), oneLine(c.New), strings.TrimSpace(c.line))
}

func oneLine(s string) string {
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return "nothing"
	}
	return s
}

func (c change) changed() (string, error) {
	if c.File == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return "", err
	}
	return string(text[:c.From]) + c.New + string(text[c.To:]), nil
}

// overlay writes the changed file into dir and returns the argument of go build -overlay.
func (c change) overlay(dir, text string) (string, error) {
	file, err := filepath.Abs(c.File)
	if err != nil {
		return "", err
	}
	changed, name := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(name, data, 0o600)
}

// accused lists the files whose code virtual time runs.
var accused = []string{
	"internal/core/*.go", "internal/term/*.go", "internal/member/*.go", "internal/place/*.go",
	"internal/core/election/*.go", "internal/core/intent/*.go", "internal/policy/*.go", "internal/membership/*.go",
	"lease/intent/store/*.go", "internal/redisstore/lua/*.lua", "lease/intent/store/lua/*.lua",
}

// changes returns all possible changes of the files under root whose path contains only.
func changes(root, only string) (all []change, err error) {
	for _, pattern := range accused {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || !strings.Contains(file, only) {
				continue
			}
			some, err := changesOf(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// changesOf returns all possible changes of a file.
func changesOf(file string) ([]change, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	of := ofGo
	if strings.HasSuffix(file, ".lua") {
		of = ofLua
	}
	all, err := of(string(text))
	for i := range all {
		c := &all[i]
		before := string(text[:c.From])
		c.File, c.Line, c.old = file, 1+strings.Count(before, "\n"), string(text[c.From:c.To])
		c.line, _, _ = strings.Cut(string(text[1+strings.LastIndexByte(before, '\n'):]), "\n")
	}
	return all, err
}

// moved maps an operator or a truth value to its replacement.
var moved = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "~=": "==", "&&": "||", "||": "&&", "and": "or", "or": "and",
	"true": "false", "false": "true",
}

// ofGo returns the changes of a Go file: drop a statement, negate a condition, move a comparison, raise a number, flip a truth value.
func ofGo(text string) ([]change, error) {
	f := goFile{text: text, set: token.NewFileSet()}
	tree, err := parser.ParseFile(f.set, "", text, parser.SkipObjectResolution)
	if err == nil {
		ast.Inspect(tree, f.visit)
	}
	return f.all, err
}

type goFile struct {
	text string
	set  *token.FileSet
	all  []change
}

func (f *goFile) at(p token.Pos) int { return f.set.Position(p).Offset }

func (f *goFile) add(from, to token.Pos, by string) {
	f.all = append(f.all, change{From: f.at(from), To: f.at(to), New: by})
}

// visit adds the changes of a node, and reports whether its children have any.
func (f *goFile) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ExprStmt, *ast.IncDecStmt:
		f.add(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.add(n.Pos(), n.End(), "")
		}
	case *ast.IfStmt:
		f.add(n.Cond.Pos(), n.Cond.End(), "!("+f.text[f.at(n.Cond.Pos()):f.at(n.Cond.End())]+")")
	case *ast.BinaryExpr:
		if by := moved[n.Op.String()]; by != "" {
			f.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by)
		}
	case *ast.BasicLit:
		if i, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			f.add(n.Pos(), n.End(), strconv.Itoa(i+1))
		}
	case *ast.Ident:
		if by := moved[n.Name]; by != "" {
			f.add(n.Pos(), n.End(), by)
		}
	}
	return true
}

var (
	luaBlanked   = regexp.MustCompile(`--[^\n]*|'[^'\n]*'`)
	luaStatement = regexp.MustCompile(`(?m)^[ \t]*((?:redis\.)?p?(?:call|try)\(.*\)|[a-z]\w*\(.*\)|[a-z][\w.]*(?:\[.*\])? = .*)$`)
	luaCondition = regexp.MustCompile(`\b(?:else)?if\b\s*(.*?)\s*\bthen\b`)
	luaToken     = regexp.MustCompile(`[=~<>]=|[<>]|\band\b|\bor\b|\b\d+\b|\btrue\b|\bfalse\b`)
)

// ofLua returns the changes of a script.
func ofLua(text string) (all []change, err error) {
	code := luaBlanked.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
	for _, m := range luaStatement.FindAllStringSubmatchIndex(code, -1) {
		all = append(all, change{From: m[2], To: m[3]})
	}
	for _, m := range luaCondition.FindAllStringSubmatchIndex(code, -1) {
		all = append(all, change{From: m[2], To: m[3], New: "not (" + text[m[2]:m[3]] + ")"})
	}
	for _, m := range luaToken.FindAllStringIndex(code, -1) {
		c := change{From: m[0], To: m[1]}
		switch word := code[m[0]:m[1]]; {
		case word == "==":
			c.New = "~="
		case moved[word] != "":
			c.New = moved[word]
		default:
			n, err := strconv.Atoi(word)
			if err != nil {
				continue
			}
			c.New = strconv.Itoa(n + 1)
		}
		all = append(all, c)
	}
	return all, nil
}
