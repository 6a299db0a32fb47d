package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/lease"
)

// runbookPage is where an operator looks up what the log and Health said.
const runbookPage = "docs/operations.md"

// TestRunbookIsComplete: every warning and error of the log, every state of Health and every sentence of its reasons has a row in the
// runbook, which says what it means, what the fleet does and what there is to do.
func TestRunbookIsComplete(t *testing.T) {
	rows := runbookRows(read(t, runbookPage))
	for _, r := range rows {
		if len(r) != 4 || slices.Contains(r, "") {
			t.Errorf("a row of the runbook has not all of its four cells: %q", r)
		}
	}
	for state := range lease.HealthStates() {
		if !told(rows, "`"+state.String()+"`") {
			t.Errorf("the state %q of Health has no row", state)
		}
	}
	for _, s := range sources(t) {
		for _, text := range s.troubles() {
			if !told(rows, text) {
				t.Errorf("%s: no row of the runbook has %q", s.path, text)
			}
		}
	}
}

// TestRunbookFindsTroubles: what is written in each of the ways that are in use is found, or an empty list would pass.
func TestRunbookFindsTroubles(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		for _, text := range s.troubles() {
			found[text] = true
		}
	}
	for _, text := range []string{
		"`pollStuck`", "Poll is stuck; its lease is given up", // a call, with an event
		"redis refuses now what leases need; trying on", // a variable
		"a pipeline does not stop; its leases are left", // a call without an event
		"Lease renewal failed", "`renewFailed`",         // the table of logentry
		"A replica attached itself to Redis; it grants",    // a case of its Head
		"The leader's heartbeat is no heartbeat",           // the table of elections
		"redis' clock jumped forward: nothing is acquired", // a reason of Health
		"a replica attached itself to redis, and may have", // one of a function that it calls
		"this worker has stopped; make another",            // one that is assigned
		"starts are not accepted",                          // one that a Watch adds
	} {
		if !slices.ContainsFunc(keys(found), func(got string) bool { return strings.HasPrefix(got, text) }) {
			t.Errorf("%q is not found", text)
		}
	}
	if found["Lease renewed"] || found["Leader changed"] {
		t.Error("what is no trouble is found")
	}
}

func keys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// runbookRows are the cells of each row of the tables of the section Runbook.
func runbookRows(page string) (rows [][]string) {
	_, section, _ := strings.Cut(page, "\n## Runbook\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what is told |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func told(rows [][]string, text string) bool {
	return slices.ContainsFunc(rows, func(cells []string) bool { return strings.Contains(cells[0], text) })
}

// reasoning are the functions whose texts are, or become, the reason of a Health.
var reasoning = []string{"Health", "health", "barred", "ungranting", "surplusText"}

// troubles are the texts in a file of the library or the node that the runbook has to have.
func (s source) troubles() (all []string) {
	if s.isTest() || !slices.ContainsFunc([]string{"lease/", "internal/node/", "internal/logentry/", "cmd/node/"},
		func(dir string) bool { return strings.HasPrefix(s.path, dir) }) {
		return nil
	}
	for _, d := range s.ast.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		switch {
		case !isFunc:
			all = append(all, warnRows(d)...)
		case slices.Contains(reasoning, f.Name.Name) || f.Name.Name == "text" && s.path == "lease/deaf.go":
			all = append(all, texts(f.Body)...)
		case f.Name.Name == "Head" && s.path == "internal/logentry/logentry.go":
			all = append(all, warned(f)...)
		case f.Name.Name == "levelOf":
			all = append(all, s.elected(f)...)
		default:
			all = append(all, calls(f)...)
		}
	}
	return all
}

// calls are the messages and the events of a function's calls of Warn and Error.
func calls(f *ast.FuncDecl) (all []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok || len(c.Args) < 2 {
			return true
		}
		if sel, ok := c.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Warn" && sel.Sel.Name != "Error" {
			return true
		}
		all = append(all, texts(c.Args[0])...)
		if id, ok := c.Args[0].(*ast.Ident); ok {
			all = append(all, assigned(f, id.Name)...)
		}
		for _, arg := range c.Args[1:] {
			if field, ok := arg.(*ast.CallExpr); ok && len(field.Args) == 2 && literal(field.Args[0]) == "event" {
				all = append(all, "`"+literal(field.Args[1])+"`")
			}
		}
		return true
	})
	return all
}

// assigned are the texts that a variable of a function is given.
func assigned(f *ast.FuncDecl, name string) (all []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for i, to := range a.Lhs {
				if id, ok := to.(*ast.Ident); ok && id.Name == name && i < len(a.Rhs) {
					all = append(all, texts(a.Rhs[i])...)
				}
			}
		}
		return true
	})
	return all
}

// warnRows are the events and the messages of a table whose rows have a level, of those that are warnings.
func warnRows(d ast.Decl) (all []string) {
	ast.Inspect(d, func(n ast.Node) bool {
		if row, ok := n.(*ast.CompositeLit); ok && len(row.Elts) == 4 && isName(row.Elts[1], "Warn") {
			all = append(all, "`"+literal(row.Elts[0])+"`")
			all = append(all, texts(row.Elts[2])...)
		}
		return true
	})
	return all
}

// warned are the messages that a function returns as warnings, or at the level of a table's row.
func warned(f *ast.FuncDecl) (all []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 3 && !isName(r.Results[0], "Info") {
			all = append(all, texts(r.Results[1])...)
		}
		return true
	})
	return all
}

// elected are the messages of the events of elections to which levelOf gives the level of a warning.
func (s source) elected(levelOf *ast.FuncDecl) (all []string) {
	warns := map[string]bool{}
	ast.Inspect(levelOf, func(n ast.Node) bool {
		c, ok := n.(*ast.CaseClause)
		if !ok || len(c.Body) != 1 {
			return true
		}
		if r, ok := c.Body[0].(*ast.ReturnStmt); ok && (isName(r.Results[0], "WarnLevel") || isName(r.Results[0], "ErrorLevel")) {
			for _, kind := range c.List {
				warns[kind.(*ast.Ident).Name] = true
			}
		}
		return true
	})
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && warns[id.Name] {
				all = append(all, texts(kv.Value)...)
			}
		}
		return true
	})
	return all
}

func isName(e ast.Expr, name string) bool {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		e = sel.Sel
	}
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func literal(n ast.Node) string {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(l.Value)
	return text
}

var verb = regexp.MustCompile(`%[a-z]`)

// texts are the sentences that stand in a node: of each the longest part that does not vary.
func texts(n ast.Node) (all []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		longest := ""
		for _, part := range verb.Split(literal(n), -1) {
			if part = strings.Trim(part, " :;,()\""); len(part) > len(longest) {
				longest = part
			}
		}
		if strings.Contains(longest, " ") {
			all = append(all, longest)
		}
		return true
	})
	return all
}
