package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const specification = "internal/archtest/testdata/specification.md"

// specified is one row of the specification.
type specified struct {
	id, document, asked, done, proof string
}

var (
	rowPattern  = regexp.MustCompile(`(?m)^\| ((?:\d{3}|FR|SC|EC|US\d)[^ |]*) *\|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	partPattern = regexp.MustCompile(`(?m)^## (\d{3}): `)
	// otherwise matches a row that differs from the specification, with the reason.
	otherwise = regexp.MustCompile(`^\*\*(differs|missing)\*\*: (.+)$`)
	// mentioned matches the numbers of items in code and pages.
	mentioned = regexp.MustCompile(`\b((?:FR-\d{3}|SC-\d{3}|EC-\d|US\d(?:-\d)?)\b)|(?:md, |see |item |to )(00\d-[\w.]+(?:-\w+)?)\b`)
	linked    = regexp.MustCompile(`\]\(([^)]+)\)`)
	proofs    = regexp.MustCompile("^(?:" +
		`(?P<guarantee>[GEI]\d+)|spec ` + "`(?P<spec>[^`]+)`|mutant `(?P<mutant>[^`]+)`|" +
		`\[[^]]+\]\((?P<page>[^)]+)\)|` + "`(?P<file>[^` ]+/[^` ]+\\.txt)`|`(?P<test>[^` ]+\\.(?:Test|Fuzz|Benchmark|Example)\\w*)`)$")
)

// rowsOf returns the rows of a page in their order.
func rowsOf(page string) []specified {
	var rows []specified
	parts := partPattern.FindAllStringSubmatchIndex(page, -1)
	for i, p := range parts {
		end := len(page)
		if i+1 < len(parts) {
			end = parts[i+1][0]
		}
		for _, m := range rowPattern.FindAllStringSubmatch(page[p[0]:end], -1) {
			rows = append(rows, specified{m[1], page[p[2]:p[3]], strings.TrimSpace(m[2]), strings.TrimSpace(m[3]), strings.TrimSpace(m[4])})
		}
	}
	return rows
}

// evidence is what a proof may name.
type evidence struct {
	guarantees, specs, mutants, tests map[string]bool
	exists                            func(path string) bool // of a file in the module, or a page of docs with its heading
}

// problem returns the fault of the row, or "".
func (s specified) problem(e evidence) string { return cmp.Or(s.unsaid(e), s.unproven(e)) }

// unsaid returns the fault of the row's text.
func (s specified) unsaid(e evidence) string {
	m := otherwise.FindStringSubmatch(s.done)
	switch {
	case s.asked == "":
		return "it does not say what is asked for"
	case m == nil && !s.asWritten():
		return fmt.Sprintf("%q neither says as written nor why it is otherwise", s.done)
	case m != nil && len(strings.Fields(m[2])) < 4:
		return fmt.Sprintf("%q is no reason", m[2])
	}
	for _, link := range linked.FindAllStringSubmatch(s.done, -1) {
		if !e.exists("docs/" + link[1]) {
			return fmt.Sprintf("it leads to %s, which is not there", link[1])
		}
	}
	return ""
}

// unproven returns the fault of the row's proofs. A row that differs from the specification needs none.
func (s specified) unproven(e evidence) string {
	switch {
	case s.proof == "" && s.asWritten():
		return "as written, and nothing proves it"
	case s.proof == "":
		return ""
	case e.specs[s.id] && !strings.Contains(s.proof, "spec `"+s.id+"`"):
		return "its spec of the same name is not among its proofs"
	}
	for proof := range strings.SplitSeq(s.proof, ", ") {
		if why := e.lacks(proof); why != "" {
			return why
		}
	}
	return ""
}

func (s specified) asWritten() bool { return strings.HasPrefix(s.done, "as written") }

// lacks returns the fault of one proof, or "".
func (e evidence) lacks(proof string) string {
	m := proofs.FindStringSubmatch(proof)
	if m == nil {
		return fmt.Sprintf("%q is no proof that can be looked up", proof)
	}
	of := func(group string) string { return m[proofs.SubexpIndex(group)] }
	var ok bool
	switch {
	case of("guarantee") != "":
		ok = e.guarantees[of("guarantee")]
	case of("spec") != "":
		ok = e.specs[of("spec")]
	case of("mutant") != "":
		ok = e.mutants[of("mutant")]
	case of("test") != "":
		ok = e.tests[of("test")]
	case of("file") != "":
		ok = e.exists(of("file"))
	default:
		ok = e.exists("docs/" + of("page"))
	}
	if !ok {
		return fmt.Sprintf("%s does not exist (any more)", proof)
	}
	return ""
}

// headings returns the anchors of a page's headings.
func headings(page string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			text = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			out[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// all returns the first group of each match.
func all(pattern, text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	return out
}

func gather(t *testing.T) evidence {
	t.Helper()
	e := evidence{
		guarantees: all(`(?m)^### ([GEI]\d+): `, read(t, "docs/guarantees.md")+read(t, "docs/guarantees-systems.md")),
		mutants:    mutants(t),
		specs:      map[string]bool{}, tests: map[string]bool{},
		exists: func(path string) bool {
			file, heading, part := strings.Cut(path, "#")
			text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
			return err == nil && (!part || headings(string(text))[heading])
		},
	}
	for _, s := range sources(t) {
		if !s.isTest() {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				e.tests[filepath.ToSlash(filepath.Dir(s.path))+"."+f.Name.Name] = true
			}
		}
		if under(s.path, "scenarios") {
			addLabels(s.ast, e.specs)
		}
	}
	return e
}

// addLabels adds the labels of the specs in a file.
func addLabels(file *ast.File, labels map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "Label" {
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok {
					label, _ := strconv.Unquote(lit.Value)
					labels[label] = true
				}
			}
		}
		return true
	})
}

// itemsOfSpecification is the number of items in the five documents.
const itemsOfSpecification = 286

// Every item of the specification has a row, with a proof that exists or a reason for the difference.
func TestSpecificationIsAccountedFor(t *testing.T) {
	e, seen := gather(t), map[string]bool{}
	for _, r := range rowsOf(read(t, specification)) {
		if seen[r.id] {
			t.Errorf("%s has two rows", r.id)
		}
		seen[r.id] = true
		if why := r.problem(e); why != "" {
			t.Errorf("%s: %s", r.id, why)
		}
	}
	if len(seen) != itemsOfSpecification {
		t.Errorf("%d rows, want one for each of %d items", len(seen), itemsOfSpecification)
	}
}

// Every acceptance scenario, criterion and edge case has a spec. Every label that is a number of the specification, and every such number
// in a comment or a page, has a row.
func TestSpecificationKnowsItsNumbers(t *testing.T) {
	page := read(t, specification)
	rows := map[string]bool{}
	for _, r := range rowsOf(page) {
		rows[r.id] = true
	}
	specs := gather(t).specs
	for label := range specs {
		if regexp.MustCompile(`^(US|SC|EC|FR|ADR|SOVEREIGN)`).MatchString(label) && !strings.Contains(page, "spec `"+label+"`") {
			t.Errorf("no row names the spec labelled %s as its proof", label)
		}
	}
	for id := range rows {
		if regexp.MustCompile(`^(US\d-\d|SC-\d{3}|EC-\d)$`).MatchString(id) && !specs[id] {
			t.Errorf("no spec in scenarios is labelled %s", id)
		}
	}
	say := func(where, text string) {
		for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
			if id := m[1] + m[2]; !rows[id] {
				t.Errorf("%s mentions %s, which has no row in the specification", where, id)
			}
		}
	}
	for _, s := range sources(t) {
		say(s.path, string(s.text))
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, p := range pages {
		path := "docs/" + filepath.Base(p)
		say(path, read(t, path))
	}
}
