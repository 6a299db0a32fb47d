package archtest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/messages.txt")

// testdata/messages.txt has every text of the library and the commands for people, to read at once. Update it with each change of a text:
// go test ./internal/archtest -run Messages -update
func TestMessages(t *testing.T) {
	texts := map[string][]string{} // by package
	for _, s := range sources(t) {
		room, _, _ := strings.Cut(s.path, "/")
		if s.isTest() || !slices.Contains([]string{"lease", "internal", "cmd"}, room) || strings.Contains(s.path, "test/") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field, *ast.ImportSpec: // tags and paths
				return false
			case ast.Expr:
				if text, ok := literal(n); ok {
					if isMessage(text) {
						texts[path.Dir(s.path)] = append(texts[path.Dir(s.path)], text)
					}
					return false
				}
			}
			return true
		})
	}
	var got bytes.Buffer
	for _, dir := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&got, "# %s\n\n", dir)
		slices.Sort(texts[dir])
		for _, text := range slices.Compact(texts[dir]) {
			fmt.Fprintf(&got, "%s\n", strings.TrimRight(text, "\n"))
		}
		got.WriteByte('\n')
	}
	const golden = "testdata/messages.txt"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is not up to date (%v); rewrite it with -update, and read what changed", golden, err)
	}
}

// literal returns the text of a string literal, or of a sum that has literals.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		left, okLeft := literal(e.X)
		right, okRight := literal(e.Y)
		switch {
		case e.Op != token.ADD || !okLeft && !okRight:
			return "", false
		case !okLeft:
			left = "…"
		case !okRight:
			right = "…"
		}
		return left + right, true
	}
	return "", false
}

// isMessage reports whether text has three words, and is no script.
func isMessage(text string) bool {
	return strings.Count(text, " ") >= 2 && strings.ContainsAny(text, "abcdefghijklmnopqrstuvwxyz") && !strings.Contains(text, "redis.call")
}
