package archtest

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// retired are words that gave way to the field's: what a strike was is an injection (the glossaries in the packages' documentation).
// They stand in no identifier and no comment of the rooms, but in the names of fields of files, which keep theirs.
var retired = []struct{ rooms, words []string }{
	{
		rooms: []string{"sim/check", "sim/fault", "sim/real", "sim/explore", "sim/report"},
		words: []string{
			"strike", "strikes", "striking", "struck", "striker", "strikers", "unstruck", "barred", "unsought", "vouched", "doomed",
			"turbid", "peopled", "coupled", "heirless", "orphan", "orphaned", "legacy", "opinion", "manned", "bygone", "tended",
			"untended", "bereft", "mourn", "babble",
		},
	},
	{rooms: []string{"sim/check"}, words: []string{"told", "bars", "heir", "heirs", "crew", "word"}},
	{rooms: []string{"lease", "internal/redisstore"}, words: []string{"unsought", "vouched", "doomed", "heirless", "turbid", "peopled"}},
}

var (
	wordOfName = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	wordOfText = regexp.MustCompile(`[A-Za-z]+`)
)

// fieldsOfFiles returns the names of all fields that have a name in a file.
func fieldsOfFiles(all []source) map[string]bool {
	names := map[string]bool{}
	for _, s := range all {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil && strings.Contains(f.Tag.Value, `json:"`) {
				for _, id := range f.Names {
					names[id.Name] = true
				}
			}
			return true
		})
	}
	return names
}

func TestRetiredWords(t *testing.T) {
	all := sources(t)
	kept := fieldsOfFiles(all)
	for _, group := range retired {
		words := map[string]bool{}
		for _, w := range group.words {
			words[w] = true
		}
		seen := 0
		for _, s := range all {
			if !under(s.path, group.rooms...) {
				continue
			}
			seen++
			find := func(n ast.Node, text string, in *regexp.Regexp) {
				for _, w := range in.FindAllString(text, -1) {
					if words[strings.ToLower(w)] {
						t.Errorf("%s: %q is a retired word (%.60q)", s.fset.Position(n.Pos()), w, text)
					}
				}
			}
			for _, c := range s.ast.Comments {
				for _, line := range c.List {
					find(line, line.Text, wordOfText)
				}
			}
			ast.Inspect(s.ast, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && !kept[id.Name] {
					find(id, id.Name, wordOfName)
				}
				return true
			})
		}
		if seen == 0 {
			t.Errorf("no sources in %v", group.rooms)
		}
	}
}
