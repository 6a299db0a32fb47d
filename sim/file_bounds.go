package sim

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// depthMax bounds a scenario file, as report.ScenarioMax does: the YAML library takes up to some six thousand times the file's
// size, and without this bound some seventy thousand times.
const depthMax = 32

// blankMax is how many lines without a word a scenario file may have: for those of one text the YAML library takes time that grows with
// the square of their number, a quarter of a second for these and fifteen seconds for as many as fit into a file.
const blankMax = 4096

func blank(data []byte) (n int) {
	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) == 0 {
			n++
		}
	}
	return n
}

// shallow refuses lists and mappings within one another beyond all reason, before the parser meets them, and aliases: twenty lines
// of them are a list of a billion.
func shallow(tokens token.Tokens) error {
	depth, entries, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			entries, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.AliasType:
			return &yaml.SyntaxError{Message: "an alias: write out what it stands for", Token: t}
		}
		if depth > depthMax || entries > depthMax {
			return &yaml.SyntaxError{Message: fmt.Sprintf("more than %d lists or mappings within one another", depthMax), Token: t}
		}
	}
	return nil
}

// alone refuses a second document, also an empty one: only the first would be read.
func alone(tree *ast.File) error {
	first := true
	for _, d := range tree.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); directive {
			continue
		}
		if !first {
			at := d.Start // nil after a "..."
			if at == nil {
				at = d.Body.GetToken()
			}
			return &yaml.SyntaxError{Message: "a second document begins here: a file is one scenario", Token: at}
		}
		first = false
	}
	return nil
}
