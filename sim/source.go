package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// ScenarioVersion is the format that this program writes, and the newest that it reads. Only a change of a key's meaning raises it.
const ScenarioVersion = 1

// source is the text of a scenario file, for the positions of errors.
type source struct {
	path string
	tree *ast.File
}

// decode parses the file's data into y. The YAML library panics on some invalid texts; decode reports these panics as errors.
func decode(data []byte, y any) (tree *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("not YAML that can be read")
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with a byte order mark
	if tree, err = parser.ParseBytes(data, 0); err != nil {
		return nil, err
	}
	var v struct {
		Version int `yaml:"version"`
	}
	if yaml.Unmarshal(data, &v) == nil && (v.Version < 0 || v.Version > ScenarioVersion) { // checked before unknown keys
		return nil, fmt.Errorf("it has version %d, this program reads version %d", v.Version, ScenarioVersion)
	}
	if err := cmp.Or(alone(tree), octal(tree)); err != nil {
		return nil, err
	}
	return tree, yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(y)
}

// octal refuses a number with a leading zero, which YAML readers interpret as octal or as decimal.
func octal(tree *ast.File) error {
	for _, d := range tree.Docs {
		if d.Body == nil {
			continue
		}
		for _, n := range ast.Filter(ast.IntegerType, d.Body) {
			if at := n.GetToken(); at.Type == token.OctetIntegerType {
				return &yaml.SyntaxError{Message: at.Value + ": leave out the leading zero, which makes it octal to some readers", Token: at}
			}
		}
	}
	return nil
}

// alone refuses a second document, even an empty one, which would be ignored.
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

func syntax(file string, err error) error {
	var y yaml.Error
	if !errors.As(err, &y) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("%w: %s: %s", ErrInvalid, file, line)
	}
	message := y.GetMessage()
	var typed *yaml.TypeError
	var large *yaml.OverflowError
	switch {
	case errors.As(err, &typed):
		message = mistyped(typed)
	case errors.As(err, &large):
		message = large.SrcNum + " is out of range"
	}
	return fmt.Errorf("%w: %s: %s", ErrInvalid, position(file, y.GetToken()), message)
}

// mistyped names the kind of value that a key needs, without Go's type names.
func mistyped(e *yaml.TypeError) string {
	wants := "another kind of value"
	switch t := e.DstType; {
	case t == reflect.TypeFor[time.Duration]():
		wants = "a duration with its unit, such as 30s or 500ms"
	case t.Kind() == reflect.Bool:
		wants = "true or false"
	case t.Kind() == reflect.Float64:
		wants = "a number"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Uint64:
		wants = "a whole number"
	case t.Kind() == reflect.String:
		wants = "a text"
	case t.Kind() == reflect.Slice:
		wants = "a list"
	case t.Kind() == reflect.Struct:
		wants = "keys with values"
	}
	if e.Token == nil {
		return "this needs " + wants
	}
	return fmt.Sprintf("%q: this needs %s", e.Token.Value, wants)
}

func position(file string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, t.Position.Line, t.Position.Column)
}

// locate adds file, line and column to an error about a key of the file. A nil source has no position.
func (s *source) locate(err error) error {
	var k *KeyError
	if s == nil || !errors.As(err, &k) {
		return err
	}
	at, perr := yaml.PathString("$." + k.Key)
	if perr != nil {
		return err
	}
	node, perr := at.FilterFile(s.tree)
	if perr != nil || node == nil {
		return err // a default or a flag is wrong
	}
	return fmt.Errorf("%s: %w", position(s.path, node.GetToken()), err)
}
